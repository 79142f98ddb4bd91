"""Training of the chat model: documents, questions, conversations over passages, and the loop over them."""
