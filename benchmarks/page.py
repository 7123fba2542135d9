"""The page of all figures: each section with the day on which it was measured, so that some can be measured again."""

import re
from collections.abc import Sequence

from tables import Section

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def written(opening: str, sections: Sequence[Section], today: str, old: str = "") -> str:
    """Return the page: what opens it, then the sections, each with its day. Those of an `old` page stay in place."""
    kept = _sections(old)
    kept |= {section.title: f"{section.markdown()}\n\nMeasured on {today}." for section in sections}
    return "\n\n".join([opening, *kept.values()]) + "\n"


def _sections(page: str) -> dict[str, str]:
    """Return the sections of a page by their titles."""
    headings = list(_HEADING.finditer(page))
    ends = [*(heading.start() for heading in headings[1:]), len(page)]
    return {heading[1]: page[heading.start() : end].strip() for heading, end in zip(headings, ends, strict=True)}
