"""Servers that run models: how each is asked, and what each answers."""
