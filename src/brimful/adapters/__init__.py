"""Adapters to frameworks. Import the module of yours, such as `brimful.adapters.langchain`."""
