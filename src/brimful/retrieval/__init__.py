"""Finding what belongs into a context: terms, scores, one relevance."""
