"""An MCP server: memories, conversations and contexts of a store as tools, resources and prompts of other programs."""
