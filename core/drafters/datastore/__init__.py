"""REST: what followed the longest match in a corpus, found with a suffix array that is read from the disk."""

from core.drafters.datastore.drafter import Datastore

__all__ = ["Datastore"]
