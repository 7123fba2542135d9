"""Count images, sounds and videos by the rule that a model names; base64 data is never counted as text."""

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, TypeVar, assert_never

import msgspec

from brimful.core.content import Media
from brimful.core.learned import learn
from brimful.core.model import ModelInfo
from brimful.core.tokens import Count
from brimful.counting.dimensions import read_dimensions
from brimful.counting.images import ImageRule
from brimful.errors import InvalidModel

ASSUMED_SIDE: Final = 1024  # pixels, for an image that does not say how large it is
LARGEST_SIDE: Final = 2048  # pixels, that the margin of such an image covers
ASSUMED_SECONDS: Final = 60.0  # for a sound or video that does not say how long it is
FALLBACK_RULES: Final = {"image": "seed-default", "audio": "gemini-2-audio", "video": "gemini-2-video"}
"""For a model that names no rule: the rule of thumb for images, the dearest known rates for the rest."""


_R = TypeVar("_R")


class RateRule(msgspec.Struct, frozen=True, kw_only=True):
    """A sound or a video costs so many tokens a second, rounded up."""

    per_second: int
    source: str
    as_of: str


class MediaRules(msgspec.Struct, frozen=True, kw_only=True):
    """All rules by name."""

    image: Mapping[str, ImageRule]
    audio: Mapping[str, RateRule]
    video: Mapping[str, RateRule]


learn(MediaRules)


@cache
def media_rules() -> MediaRules:
    """Return the table, read once."""
    table = Path(__file__).with_name("media_rules.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(table, type=MediaRules)


class MediaCounter:
    """Counts media for one model.

    >>> gpt_4o = MediaCounter(image="openai-tiles-85-170")
    >>> gpt_4o.count(Media(modality="image", url="https://example.com/a.png", width=1920, height=1080)).tokens
    1105
    >>> gpt_4o.count(Media(modality="image", url="https://example.com/a.png"))
    Count(tokens=765, basis='approximate', tokenizer='openai-tiles-85-170', margin=0)
    """

    def __init__(self, *, image: str | None = None, audio: str | None = None, video: str | None = None) -> None:
        """Count by the rules of these names; a rule that is not named is the fallback's, and approximate."""
        rules = media_rules()
        self._image_name, self._image = _chosen("image", image, rules.image)
        self._audio_name, self._audio = _chosen("audio", audio, rules.audio)
        self._video_name, self._video = _chosen("video", video, rules.video)
        self._named = {"image": image is not None, "audio": audio is not None, "video": video is not None}

    @classmethod
    def of(cls, model: ModelInfo) -> "MediaCounter":
        """Count by the rules that the model names."""
        return cls(image=model.image_rule, audio=model.audio_rule, video=model.video_rule)

    def count(self, part: Media) -> Count:
        """Count one medium."""
        match part.modality:
            case "image":
                return self._count_image(part)
            case "audio":
                return self._count_rate(part, self._audio_name, self._audio)
            case "video":
                return self._count_rate(part, self._video_name, self._video)
            case _:
                assert_never(part.modality)

    def _count_image(self, part: Media) -> Count:
        size = (part.width, part.height) if part.width and part.height else read_dimensions(part.data)
        width, height = size or (ASSUMED_SIDE, ASSUMED_SIDE)
        tokens = self._image.count(width, height, part.detail)
        if size is None or not self._named["image"]:
            largest = 0 if size else self._image.count(LARGEST_SIDE, LARGEST_SIDE, part.detail)
            margin = max(0, largest - tokens)
            return Count(tokens=tokens, basis="approximate", tokenizer=self._image_name, margin=margin)
        return Count(
            tokens=tokens,
            basis="calibrated" if self._image.disputed else "exact",
            tokenizer=self._image_name,
        )

    def _count_rate(self, part: Media, name: str, rule: RateRule) -> Count:
        known = part.seconds is not None and self._named[part.modality]
        tokens = math.ceil((part.seconds or ASSUMED_SECONDS) * rule.per_second)
        return Count(tokens=tokens, basis="calibrated" if known else "approximate", tokenizer=name)


def _chosen(modality: str, name: str | None, rules: Mapping[str, _R]) -> tuple[str, _R]:
    chosen = name or FALLBACK_RULES[modality]
    if chosen not in rules:
        raise InvalidModel("model", f"{modality}_rule", f"no rule {chosen!r}; known: {', '.join(rules)}")
    return chosen, rules[chosen]
