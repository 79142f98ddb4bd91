"""`bench rag`: questions answered from documents, by our engine and by other runtimes on the same weights."""
