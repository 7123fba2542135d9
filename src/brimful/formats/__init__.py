"""File formats of other programs: read them into records, and write records back.

One module per format (`chatgpt`, `claude`, `slack`, `openai`, …), each ending in a `FORMAT`. `Reader` goes through
files, folders and archives, and detects the format of each file. Third-party packages add formats through the entry
point group `brimful.formats`.
"""

from brimful.formats.character_card import write_card
from brimful.formats.files import Limits
from brimful.formats.ids import IdChain
from brimful.formats.markdown import file_name, is_unedited, mark_of, write_memory
from brimful.formats.openai import write_openai_messages
from brimful.formats.reader import DamageReport, Reader, check_files, read_checked
from brimful.formats.registry import ENTRY_POINT_GROUP, detect_format, format_names
from brimful.formats.sillytavern import write_chat_head, write_chat_line
from brimful.formats.source import Entry, Format, ImportedItem, ImportedRecord, Replaces, Skipped, Source

__all__ = [
    "ENTRY_POINT_GROUP",
    "DamageReport",
    "Entry",
    "Format",
    "IdChain",
    "ImportedItem",
    "ImportedRecord",
    "Limits",
    "Reader",
    "Replaces",
    "Skipped",
    "Source",
    "check_files",
    "detect_format",
    "file_name",
    "format_names",
    "is_unedited",
    "mark_of",
    "read_checked",
    "write_card",
    "write_chat_head",
    "write_chat_line",
    "write_memory",
    "write_openai_messages",
]
