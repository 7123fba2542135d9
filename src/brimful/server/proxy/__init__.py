"""The proxy: forwards OpenAI and Anthropic requests, trimmed to fit or built from a stored conversation."""
