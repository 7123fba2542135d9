"""The front door: assemble a context, fit an existing request, and ask what-if questions."""
