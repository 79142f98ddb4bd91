"""Correction in several processes: each has a model and a thread of its own, since one interpreter runs one row of
Python at a time and the loop between the passes is Python.

Knows processes, pipes and how work is dealt out. Does not know files or rows; `apps.gec.CorrectorPool` is the face.
"""

from .pool import ProcessPool
from .process import WorkerDied, WorkerError

__all__ = ["ProcessPool", "WorkerDied", "WorkerError"]
