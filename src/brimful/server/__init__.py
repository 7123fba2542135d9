"""The server: a proxy for the OpenAI and Anthropic APIs that trims requests to fit, and the inspector."""
