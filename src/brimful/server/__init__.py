"""The server: a drop-in for OpenAI's and Anthropic's APIs whose windows always fit."""
