"""What stands under one heading stands together."""

from collections.abc import Sequence

from brimful.core.content import ContentPackage
from brimful.core.label import heading
from brimful.core.unit import time_of


def gathered(packages: Sequence[ContentPackage]) -> list[ContentPackage]:
    """Return packages so that those of one heading stand together, in time, where the last of them stood."""
    groups: dict[tuple[str, str], list[ContentPackage]] = {}
    for package in packages:
        above = heading(package)
        key = (above, "" if above else package.id)
        group = groups[key] = groups.pop(key, [])
        group.append(package)
    if len(groups) == len(packages):
        return list(packages)
    return [package for group in groups.values() for package in sorted(group, key=time_of)]
