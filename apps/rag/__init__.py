"""Answers from documents, sooner: retrieval, citations, and drafts copied from the passages."""
