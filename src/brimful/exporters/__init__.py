"""Exporters: records of ours → files of other programs. What an importer read, it can read again.

openai (a conversation) | sillytavern (a chat) | card (a character with its book)
"""

from brimful.exporters.card import card_of
from brimful.exporters.openai import spoken
from brimful.exporters.sillytavern import head_of, line_of

__all__ = ["card_of", "head_of", "line_of", "spoken"]
