"""How passages and vectors lie on disk and in memory; nothing of LangChain, embeddings or language models."""
