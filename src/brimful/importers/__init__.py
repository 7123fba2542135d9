"""Importers: files of other programs → records of ours. One file a format.

    registry (which format is it?) → openai | records → importer (what each of them is), ids → source → pieces

Reading is all that happens here: what is done with the records is the engine's.
"""

from brimful.importers.ids import Chain
from brimful.importers.importer import Imported, Importer
from brimful.importers.registry import GROUP, importer_for, importer_names
from brimful.importers.source import Entry, Skipped, Source

__all__ = ["GROUP", "Chain", "Entry", "Imported", "Importer", "Skipped", "Source", "importer_for", "importer_names"]
