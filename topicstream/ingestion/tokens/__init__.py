"""Document -> word counts: recipe, tokenizer, vocabulary."""
