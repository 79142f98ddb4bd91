"""Edits between a text and its correction: where, what, and what kind of error."""

from .extraction import Edit, apply_edits, extract_edits
from .tokens import Token, tokenize

__all__ = ["Edit", "Token", "apply_edits", "extract_edits", "tokenize"]
