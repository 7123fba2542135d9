"""Lorebooks of other programs: SillyTavern's World Info, and the books of character cards (V2, V3).

book (a whole file, there and back) → sillytavern | card (fields of each) → reading → field (there and back)
"""

from brimful.lore.formats.book import FORMATS, Format, book_of, entries_of, exported, format_of

__all__ = ["FORMATS", "Format", "book_of", "entries_of", "exported", "format_of"]
