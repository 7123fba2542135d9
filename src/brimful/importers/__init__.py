"""Importers: files of other programs → records of ours. One file a format.

    check (is all of it whole?) → walk (which files are there?) → registry (which format is it?) → one file a format
    → importer (what they all are), ids, times, loose → source → folder, archive, inflating → pieces, fields

Reading is all that happens here: what is done with the records is the engine's.
"""

from brimful.importers.check import Damage, check, checked
from brimful.importers.ids import Chain
from brimful.importers.importer import Imported, Importer
from brimful.importers.registry import GROUP, importer_for, importer_names
from brimful.importers.source import Entry, Skipped, Source
from brimful.importers.walk import Walk

__all__ = [
    "GROUP",
    "Chain",
    "Damage",
    "Entry",
    "Imported",
    "Importer",
    "Skipped",
    "Source",
    "Walk",
    "check",
    "checked",
    "importer_for",
    "importer_names",
]
