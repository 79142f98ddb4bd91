"""Scores for grammar correction: GLEU, edits, what must be preserved, passes. No models here."""
