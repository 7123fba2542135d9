"""Count images, audio and video by the rule that a model names. Base64 data is never counted as text.

The rules are in `media_rules`.
"""

import base64
import binascii
import math
import re
import struct
from collections.abc import Mapping
from typing import Final, TypeVar, assert_never

from brimful.core.content import Media
from brimful.core.model import ModelInfo
from brimful.core.tokens import Count
from brimful.counting.media_rules import MEDIA_RULES, RateRule
from brimful.errors import InvalidModel

_HEADER_BYTES: Final = 65_536  # a JPEG's size may come after an embedded thumbnail
_START_OF_FRAME: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # JPEG markers with the size
_NO_LENGTH: Final = frozenset({0x01, *range(0xD0, 0xDA)})  # JPEG markers without a length
ASSUMED_SIDE: Final = 1024  # pixels, for an image of unknown size
MAX_ASSUMED_SIDE: Final = 2048  # pixels that the margin of such an image covers
PAGE_TOKENS: Final = 4_500  # of a PDF: up to 3,000 for its text, 1,500 for its picture (Anthropic, PDF support)
ASSUMED_PAGES: Final = 10  # of a document that is not in the request
STORED_ITEM_TOKENS: Final = 1_000  # of an item that only its provider has, such as the reasoning before a tool call
_BYTES_PER_PAGE: Final = 50_000  # of a PDF that does not list its pages
_BYTES_PER_TOKEN: Final = 3  # of any other document
_MAX_DOCUMENT_SHARE: Final = 4  # a document counts at most this part of the window: whether it fits, the provider says
_MAX_ASSUMED_SHARE: Final = 2  # the margin of an image without a rule ends at this part of the window: it is still sent
_PDF_START: Final = "JVBERi0"  # %PDF- in base64
_PDF_PAGE: Final = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
ASSUMED_SECONDS: Final = 60.0  # for audio or video of unknown length
FALLBACK_RULES: Final = {"image": "openai-tiles-85-170", "audio": "gemini-2-audio", "video": "gemini-2-video"}
"""For models without a rule: the most usual one for images, the highest for audio, and a frame a second for video."""
_PRICED_IN_TOKENS: Final = "openai-tiles-2833"  # gpt-4o-mini bills 33 times the tokens that an image takes
_POSSIBLE_IMAGE_RULES: Final = tuple(
    rule for name, rule in MEDIA_RULES.image.items() if not name.startswith(("seed-", _PRICED_IN_TOKENS))
)
"""The rules by which a model without one may count images: up to 6,404 tokens for 1024 x 1024 pixels."""


Size = tuple[int, int]


def read_dimensions(data: str) -> Size | None:
    """Read the width and height of an image from base64 data, or return None.

    >>> read_dimensions("R0lGODlhQAEgAQ==")
    (320, 288)
    """
    header = _decode_base64(data[: _HEADER_BYTES * 4 // 3 // 4 * 4])
    size = _png(header) or _gif(header) or _webp(header) or _jpeg(header)
    return size if size and all(size) else None


def _decode_base64(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded)
    except (binascii.Error, ValueError):
        return b""


def _png(header: bytes) -> Size | None:
    if not header.startswith(b"\x89PNG\r\n\x1a\n") or len(header) < 24:  # noqa: PLR2004 - where IHDR's size ends
        return None
    width, height = struct.unpack(">II", header[16:24])
    return width, height


def _gif(header: bytes) -> Size | None:
    if not header.startswith((b"GIF87a", b"GIF89a")) or len(header) < 10:  # noqa: PLR2004 - where the size ends
        return None
    width, height = struct.unpack("<HH", header[6:10])
    return width, height


def _webp(header: bytes) -> Size | None:
    if header[:4] != b"RIFF" or header[8:12] != b"WEBP" or len(header) < 30:  # noqa: PLR2004 - the longest form
        return None
    match header[12:16]:
        case b"VP8X":
            return int.from_bytes(header[24:27], "little") + 1, int.from_bytes(header[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(header[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack("<HH", header[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return None


def _jpeg(header: bytes) -> Size | None:
    if not header.startswith(b"\xff\xd8"):
        return None
    index = 2
    while index + 9 <= len(header) and header[index] == 0xFF:  # noqa: PLR2004 - every marker begins with FF
        marker = header[index + 1]
        if marker in _START_OF_FRAME:
            height, width = struct.unpack(">HH", header[index + 5 : index + 9])
            return width, height
        index += 2 if marker in _NO_LENGTH else 2 + int.from_bytes(header[index + 2 : index + 4])
    return None


_RuleT = TypeVar("_RuleT")


class MediaCounter:
    """Counts media for one model.

    >>> gpt_4o = MediaCounter(image="openai-tiles-85-170")
    >>> gpt_4o.count(Media(modality="image", url="https://example.com/a.png", width=1920, height=1080)).tokens
    1105
    >>> gpt_4o.count(Media(modality="image", url="https://example.com/a.png"))
    Count(tokens=765, basis='approximate', tokenizer='openai-tiles-85-170', margin=0)
    >>> MediaCounter().count(Media(modality="image", url="https://example.com/a.png"))
    Count(tokens=765, basis='approximate', tokenizer='openai-tiles-85-170', margin=5639)
    """

    def __init__(
        self,
        *,
        image: str | None = None,
        audio: str | None = None,
        video: str | None = None,
        max_document: int | None = None,
        max_assumed: int | None = None,
    ) -> None:
        """Count with the named rules. Without a name, the fallback rule applies and counts are approximate.

        For images, a margin then covers what any other rule would count, up to `max_assumed` tokens an image. A
        document counts at most `max_document` tokens.
        """
        self._max_document = max_document
        self._max_assumed = max_assumed
        rules = MEDIA_RULES
        self._image_name, self._image = _find_rule("image", image, rules.image)
        self._audio_name, self._audio = _find_rule("audio", audio, rules.audio)
        self._video_name, self._video = _find_rule("video", video, rules.video)
        self._named = {"image": image is not None, "audio": audio is not None, "video": video is not None}

    @classmethod
    def of(cls, model: ModelInfo) -> "MediaCounter":
        """Count with the model's rules."""
        return cls(
            image=model.image_rule,
            audio=model.audio_rule,
            video=model.video_rule,
            max_document=model.window // _MAX_DOCUMENT_SHARE,
            max_assumed=model.window // _MAX_ASSUMED_SHARE,
        )

    def count(self, part: Media) -> Count:
        """Count one image, audio clip or video."""
        match part.modality:
            case "image":
                return self._count_image(part)
            case "audio":
                return self._count_rate(part, self._audio_name, self._audio)
            case "video":
                return self._count_rate(part, self._video_name, self._video)
            case "document":
                tokens = assume_document_tokens(part)
                limit = tokens if self._max_document is None or part.is_opaque else self._max_document
                return Count(tokens=min(tokens, limit), basis="bound", tokenizer="document")
            case _:
                assert_never(part.modality)

    def _count_image(self, part: Media) -> Count:
        size = (part.width, part.height) if part.width and part.height else read_dimensions(part.data)
        width, height = size or (ASSUMED_SIDE, ASSUMED_SIDE)
        tokens = self._image.count(width, height, part.detail)
        if size is None or not self._named["image"]:
            rules = (self._image,) if self._named["image"] else _POSSIBLE_IMAGE_RULES
            wide, high = size or (MAX_ASSUMED_SIDE, MAX_ASSUMED_SIDE)
            largest = max(rule.count(wide, high, part.detail) for rule in rules)
            if self._max_assumed is not None and not self._named["image"]:
                largest = min(largest, self._max_assumed)
            return Count(
                tokens=tokens, basis="approximate", tokenizer=self._image_name, margin=max(0, largest - tokens)
            )
        return Count(tokens=tokens, basis="calibrated" if self._image.disputed else "exact", tokenizer=self._image_name)

    def _count_rate(self, part: Media, name: str, rule: RateRule) -> Count:
        known = part.seconds is not None and self._named[part.modality]
        tokens = math.ceil((part.seconds or ASSUMED_SECONDS) * rule.per_second)
        return Count(tokens=tokens, basis="calibrated" if known else "approximate", tokenizer=name)


def assume_document_tokens(document: Media) -> int:
    """Return a bound for the tokens of most documents: by its pages if it is a PDF, by its size, or by neither.

    >>> assume_document_tokens(Media(modality="document", url="https://example.com/report.pdf"))
    45000
    """
    if not document.data:
        return STORED_ITEM_TOKENS if document.is_opaque else ASSUMED_PAGES * PAGE_TOKENS
    size = len(document.data) * 3 // 4
    if not document.data.startswith(_PDF_START):
        return -(-size // _BYTES_PER_TOKEN)
    pages = len(_PDF_PAGE.findall(_decode_base64(document.data)))
    return (pages or -(-size // _BYTES_PER_PAGE)) * PAGE_TOKENS


def _find_rule(modality: str, name: str | None, rules: Mapping[str, _RuleT]) -> tuple[str, _RuleT]:
    chosen = name or FALLBACK_RULES[modality]
    if chosen not in rules:
        raise InvalidModel("model", f"{modality}_rule", f"no rule {chosen!r}; known: {', '.join(rules)}")
    return chosen, rules[chosen]
