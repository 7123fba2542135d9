"""What every record has."""

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="record"):
    """Whatever has an id in a store. Written out, it says what kind of record it is."""

    id: str
