"""The page of all figures: each section with the day on which it was measured, so that some can be measured again."""

import re
from collections.abc import Sequence

from tables import Section

_HEADING = re.compile(r"^## ", re.MULTILINE)


def written(opening: str, sections: Sequence[Section], today: str, old: str = "") -> str:
    """Return the page: what opens it, then the sections, each with its day. Those of an `old` page stay in place."""
    kept = _sections(old)
    kept |= {section.title: f"{section.markdown()}\n\nMeasured on {today}." for section in sections}
    return "\n\n".join([opening, *kept.values()]) + "\n"


def _sections(page: str) -> dict[str, str]:
    """Return the sections of a page by their titles."""
    starts = [heading.start() for heading in _HEADING.finditer(page)]
    parts = [page[start:end].strip() for start, end in zip(starts, [*starts[1:], len(page)], strict=False)]
    return {part.partition("\n")[0].removeprefix("## "): part for part in parts}
