"""Families of models: what to assume about an unknown model with known relatives."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

_NUMBERED: Final = re.compile(r"([a-z]+)(\d+)")  # `k2` of `kimi-k2`
_SIZE: Final = re.compile(r"\d+k")  # `moonshot-v1-8k` names its window
_MAX_JUMP: Final = 2  # times the last known generation: `gpt-41` is not one that follows `gpt-6`
_MIN_NAMES: Final = 2  # names that share only their first word: fewer are no family
_COMMON_WORDS: Final = frozenset(
    {"abliterated", "ai", "chat", "code", "coding", "deep", "labs", "meta", "model", "open", "text"}
)
"""Words at the beginning of names of different families."""
_MIN_WORD: Final = 2  # letters of a family's name


@lru_cache(4_096)  # more than all known names
def split_name(spelling: str) -> tuple[str, ...]:
    """Split a normalized name into words and numbers.

    >>> split_name("kimi-k2-5"), split_name("qwen-3-30b-a3b")
    (('kimi', 'k', '2', '5'), ('qwen', '3', '30b', 'a3b'))
    """
    parts = [part for part in re.split("[-:]", spelling) if part]
    return tuple(word for part in parts for word in _split_part(part))


def _split_part(part: str) -> Sequence[str]:
    numbered = _NUMBERED.fullmatch(part)
    return numbered.groups() if numbered else (part,)


def first_word(spelling: str) -> str:
    """Return the first word of a normalized name, which names its family.

    >>> first_word("kimi-k2-5")
    'kimi'
    """
    return next(iter(split_name(spelling)), "")


def find_relatives(spelling: str, names: Iterable[str]) -> list[str]:
    """Return the names that share the most words at their beginning: its own generation, or the last one before it.

    >>> find_relatives("glm-6-air", ["glm-4-5", "glm-5", "glm-5-1", "glm-ocr", "kimi-k2"])
    ['glm-5', 'glm-5-1']
    >>> find_relatives("acme-1", ["glm-5"])
    []
    """
    words = split_name(spelling)
    if not words or len(words[0]) < _MIN_WORD or not words[0].isalpha() or words[0] in _COMMON_WORDS:
        return []
    similar = ((name, split_name(name)) for name in names if name.startswith(words[0]))
    family = {name: other for name, other in similar if other[0] == words[0]}
    shared = {name: _count_shared(words, other) for name, other in family.items()}
    most = max(shared.values(), default=0)
    closest = [name for name, count in shared.items() if count == most]
    if len(words) > most and words[most].isdecimal():
        return _find_generation(closest, {name: family[name][most:] for name in closest}, int(words[most]))
    return closest if most > 1 or len(closest) >= _MIN_NAMES else []


def _count_shared(words: Sequence[str], others: Sequence[str]) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(words, others, strict=False)) if a != b), min(len(words), len(others))
    )


def _find_generation(names: list[str], rests: dict[str, tuple[str, ...]], number: int) -> list[str]:
    """Return the names of the last generation before a number; all of them if there is none."""
    earlier = {name: int(rest[0]) for name, rest in rests.items() if rest and rest[0].isdecimal()}
    last = max((generation for generation in earlier.values() if generation < number), default=0)
    return names if number > _MAX_JUMP * last else [name for name in names if earlier.get(name) == last]


def named_window(spelling: str) -> int | None:
    """Return the window that a name states.

    >>> named_window("moonshot-v1-8k"), named_window("glm-5")
    (8000, None)
    """
    return min((int(word[:-1]) * 1000 for word in split_name(spelling) if _SIZE.fullmatch(word)), default=None)
