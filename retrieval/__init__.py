"""Passages, queries, scores, persistence; nothing of language-model decoding."""
