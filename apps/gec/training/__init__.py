"""Training of the grammar-correction model: text, tokenizer, shards of pairs, and the loop over them."""
