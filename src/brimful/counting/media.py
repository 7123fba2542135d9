"""Count images, audio and video by the rule that a model names. Base64 data is never counted as text.

The rules and their numbers are in `media_rules.toml`.
"""

import base64
import binascii
import math
import re
import struct
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final, TypeVar, assert_never

import msgspec

from brimful.core.content import Media
from brimful.core.model import ModelInfo
from brimful.core.tokens import Count
from brimful.core.validation import preload_types
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
_PDF_START: Final = "JVBERi0"  # %PDF- in base64
_PDF_PAGE: Final = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
ASSUMED_SECONDS: Final = 60.0  # for audio or video of unknown length
FALLBACK_RULES: Final = {"image": "openai-tiles-85-170", "audio": "gemini-2-audio", "video": "gemini-2-video"}
"""For models without a rule: the most usual rule for images, the highest known rates for audio and video."""


class _ImageRule(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """`disputed` marks a rule for which users report different numbers."""

    source: str
    as_of: str
    disputed: bool = False


class FixedCost(_ImageRule, frozen=True, kw_only=True, tag="fixed"):
    """Every image costs the same."""

    tokens: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Return the fixed cost."""
        return self.tokens


class ByDetail(_ImageRule, frozen=True, kw_only=True, tag="detail"):
    """The cost depends on the detail only; `default` is for details that are not listed."""

    levels: dict[str, int]
    default: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Return the cost of the detail."""
        return self.levels.get(detail, self.default)


class PerPixel(_ImageRule, frozen=True, kw_only=True, tag="pixels"):
    """A fixed number of pixels per token, rounded down."""

    pixels_per_token: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Divide the area by the pixels per token."""
        return width * height // self.pixels_per_token


class PlainTiles(_ImageRule, frozen=True, kw_only=True, tag="plain-tiles"):
    """A base cost and a cost per tile, without scaling."""

    base: int
    tile: int
    tile_side: int = 512

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Count the tiles of the unscaled image."""
        return self.base + self.tile * _count_cells(width, height, self.tile_side)


class Tiles(_ImageRule, frozen=True, kw_only=True, tag="tiles"):
    """OpenAI: fit into a square, scale the short side down, then a cost per tile. Low detail costs only the base.

    With `upscaled`, the short side of small images is scaled up as well.

    >>> Tiles(base=85, tile=170, source="", as_of="").count(1024, 1024, "auto")
    765
    """

    base: int
    tile: int
    tile_side: int = 512
    fit: int = 2048
    short_side: int = 768
    upscaled: bool = False

    def count(self, width: int, height: int, detail: str) -> int:
        """Scale, then count tiles."""
        if detail == "low":
            return self.base
        scale = min(Fraction(1), Fraction(self.fit, max(width, height)))
        to_short = Fraction(self.short_side) / (min(width, height) * scale)
        scale *= to_short if self.upscaled else min(Fraction(1), to_short)
        return self.base + self.tile * _count_cells(width * scale, height * scale, self.tile_side)


class Patches(_ImageRule, frozen=True, kw_only=True, tag="patches"):
    """OpenAI, newer models: patches of 32 pixels, scaled down to at most `max_patches`, times a factor.

    >>> Patches(factor="1.62", max_patches=1536, source="", as_of="").count(1920, 1080, "auto")
    2443
    """

    factor: str  # a decimal as a string: a binary 2.46 would sometimes round up
    max_patches: int | None = None
    fit: int | None = None
    side: int = 32

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Shrink, then count patches."""
        scale = min(1.0, self.fit / max(width, height)) if self.fit else 1.0
        wide, high = width * scale, height * scale
        patches = _count_cells(wide, high, self.side)
        if self.max_patches is not None and patches > self.max_patches:
            patches = min(self.max_patches, self._shrunk(wide, high, self.max_patches))
        return math.ceil(patches * Fraction(self.factor))

    def _shrunk(self, width: float, height: float, max_patches: int) -> int:
        scale = math.sqrt(self.side**2 * max_patches / (width * height))
        columns, rows = width * scale / self.side, height * scale / self.side
        scale = min(math.floor(columns) / columns, math.floor(rows) / rows)
        # One of the two is an integer by construction; rounding removes floating-point noise.
        return math.ceil(round(columns * scale, 6)) * math.ceil(round(rows * scale, 6))


class Cells(_ImageRule, frozen=True, kw_only=True, tag="cells"):
    """Anthropic: cells of 28 pixels, after scaling down to a maximum side and number of cells.

    >>> Cells(side=28, max_side=1568, max_cells=1568, source="", as_of="").count(1920, 1080, "auto")
    1560
    """

    side: int
    max_side: int
    max_cells: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Return the cells at the largest scale that keeps both limits."""
        scale = min(Fraction(1), Fraction(self.max_side, max(width, height)))
        cells = _count_cells(width * scale, height * scale, self.side)
        if cells <= self.max_cells:
            return cells
        # The number of cells changes only where a side becomes a multiple of the cell: try those scales.
        whole = range(1, self.max_side // self.side + 1)
        by_columns = (columns * -(-height * columns // width) for columns in whole)
        by_rows = (rows * -(-width * rows // height) for rows in whole)
        return max(cells for cells in (*by_columns, *by_rows) if cells <= self.max_cells)


class CropUnits(_ImageRule, frozen=True, kw_only=True, tag="crop-units"):
    """Gemini 2: a small image is one tile; a larger one is divided into units of its short side / 1.5.

    >>> CropUnits(tile=258, small=384, source="", as_of="").count(1920, 1080, "auto")
    1548
    """

    tile: int
    small: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Count units."""
        if max(width, height) <= self.small:
            return self.tile
        unit = max(1, min(width, height) * 2 // 3)
        return self.tile * _count_cells(width, height, unit)


class SmartResize(_ImageRule, frozen=True, kw_only=True, tag="smart-resize"):
    """Qwen: both sides are rounded to a multiple of `side`, and the number of cells is kept within limits.

    >>> SmartResize(side=28, min_cells=4, max_cells=1280, source="", as_of="").count(1920, 1080, "auto")
    1222
    """

    side: int
    min_cells: int
    max_cells: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Round to cells, and scale if there are too many or too few."""
        columns, rows = (max(1, round(length / self.side)) for length in (width, height))
        if columns * rows > self.max_cells:
            scale = math.sqrt(width * height / (self.max_cells * self.side**2))
            columns, rows = (max(1, math.floor(length / scale / self.side)) for length in (width, height))
        elif columns * rows < self.min_cells:
            scale = math.sqrt(self.min_cells * self.side**2 / (width * height))
            columns, rows = (math.ceil(length * scale / self.side) for length in (width, height))
        return columns * rows


class Rows(_ImageRule, frozen=True, kw_only=True, tag="rows"):
    """Mistral: fit into a square; each row of patches ends with an extra token.

    >>> Rows(side=16, fit=1024, source="", as_of="").count(1920, 1080, "auto")
    2340
    """

    side: int
    fit: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Count the patches and the ends of the rows."""
        ratio = max(width / self.fit, height / self.fit, 1.0)
        columns, rows = (max(1, math.ceil(round(length / ratio) / self.side)) for length in (width, height))
        return rows * (columns + 1)


class Canvas(_ImageRule, frozen=True, kw_only=True, tag="canvas"):
    """Llama: the best canvas of at most `max_tiles` tiles.

    The smallest canvas that holds the unscaled image wins, otherwise the one that shrinks it least. With `separators`,
    an image of several tiles also has a global tile, a token between columns and after rows, and three around it.

    >>> Canvas(side=336, tile=144, max_tiles=16, separators=True, source="", as_of="").count(512, 512, "auto")
    727
    """

    side: int
    tile: int
    max_tiles: int
    separators: bool = False

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Choose the canvas, then count its tiles."""
        columns, rows = self._best(width, height)
        tiles = columns * rows
        if not self.separators:
            return self.tile * tiles
        if tiles == 1:
            return self.tile + 3
        return self.tile * (tiles + 1) + rows * (columns - 1) + rows + 3

    def _best(self, width: int, height: int) -> tuple[int, int]:
        canvases = [(c, r) for c in range(1, self.max_tiles + 1) for r in range(1, self.max_tiles // c + 1)]

        def scale(canvas: tuple[int, int]) -> Fraction:
            return min(Fraction(canvas[0] * self.side, width), Fraction(canvas[1] * self.side, height))

        holding = [canvas for canvas in canvases if scale(canvas) >= 1]
        best = min(map(scale, holding)) if holding else max(map(scale, canvases))
        return min((canvas for canvas in canvases if scale(canvas) == best), key=lambda canvas: canvas[0] * canvas[1])


class AnyRes(_ImageRule, frozen=True, kw_only=True, tag="anyres"):
    """LLaVA-NeXT: a base view, and the best of a few grids without padding, each row ending with a token.

    >>> AnyRes(side=336, patches=24, grids=((1, 2), (2, 1), (2, 2), (3, 1), (1, 3)), source="", as_of="").count(
    ...     1920, 1080, "auto")
    1948
    """

    side: int
    patches: int
    grids: tuple[tuple[int, int], ...]  # columns and rows

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Count the base view and the unpadded grid."""
        columns, rows = self._best(width, height)
        across, down = columns * self.patches, rows * self.patches
        if width * down > height * across:
            down -= (down - height * across // width) // 2 * 2
        else:
            across -= (across - width * down // height) // 2 * 2
        return self.patches**2 + down * across + down

    def _best(self, width: int, height: int) -> tuple[int, int]:
        def fit(grid: tuple[int, int]) -> tuple[int, int]:
            wide, high = grid[0] * self.side, grid[1] * self.side
            scale = min(wide / width, high / height)
            used = min(int(width * scale) * int(height * scale), width * height)
            return used, used - wide * high

        return max(self.grids, key=fit)


class RatioTiles(_ImageRule, frozen=True, kw_only=True, tag="ratio-tiles"):
    """InternVL: the grid of at most `max_tiles` tiles whose ratio of sides is nearest, and a thumbnail of the whole.

    Of several grids with that ratio, the largest that the image fills at least by half.

    >>> RatioTiles(side=448, tile=256, max_tiles=12, source="", as_of="").count(1920, 1080, "auto")
    2304
    """

    side: int
    tile: int
    max_tiles: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Choose the grid, then count its tiles and the thumbnail."""
        grids = [(c, r) for c in range(1, self.max_tiles + 1) for r in range(1, self.max_tiles // c + 1)]
        ratio = Fraction(width, height)
        nearest = min(abs(ratio - Fraction(*grid)) for grid in grids)
        sizes = sorted(columns * rows for columns, rows in grids if abs(ratio - Fraction(columns, rows)) == nearest)
        tiles = max([sizes[0], *(size for size in sizes if 2 * width * height > self.side**2 * size)])
        return self.tile * (tiles + 1 if tiles > 1 else 1)


class Slices(_ImageRule, frozen=True, kw_only=True, tag="slices"):
    """MiniCPM-V: a view of the whole, and slices of about `side` pixels in the grid with the most similar shape.

    >>> Slices(side=448, tile=64, max_slices=9, source="", as_of="").count(1024, 1024, "auto")
    448
    """

    side: int
    tile: int
    max_slices: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Choose the grid, then count its slices and the view of the whole."""
        wanted = min(math.ceil(Fraction(width * height, self.side**2)), self.max_slices)
        if wanted <= 1:
            return self.tile
        sizes = [size for size in (wanted - 1, wanted, wanted + 1) if 1 < size <= self.max_slices]
        grids = [(columns, size // columns) for size in sizes for columns in range(1, size + 1) if size % columns == 0]
        shape = math.log(width / height)
        columns, rows = min(grids, key=lambda grid: round(abs(shape - math.log(grid[0] / grid[1])), 9))
        return self.tile * (columns * rows + 1)


ImageRule = (
    FixedCost
    | ByDetail
    | PerPixel
    | PlainTiles
    | Tiles
    | Patches
    | Cells
    | CropUnits
    | SmartResize
    | Rows
    | Canvas
    | AnyRes
    | RatioTiles
    | Slices
)


def _count_cells(width: Fraction | float, height: Fraction | float, side: int) -> int:
    return math.ceil(width / side) * math.ceil(height / side)


Size = tuple[int, int]


def read_dimensions(data: str) -> Size | None:
    """Read the width and height of an image from base64 data, or return None.

    >>> read_dimensions("R0lGODlhQAEgAQ==")
    (320, 288)
    """
    header = _decode_header(data)
    size = _png(header) or _gif(header) or _webp(header) or _jpeg(header)
    return size if size and all(size) else None


def _decode_header(data: str) -> bytes:
    return _decode_base64(data[: _HEADER_BYTES * 4 // 3 // 4 * 4])


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
    at = 2
    while at + 9 <= len(header) and header[at] == 0xFF:  # noqa: PLR2004 - every marker begins with FF
        marker = header[at + 1]
        if marker in _START_OF_FRAME:
            height, width = struct.unpack(">HH", header[at + 5 : at + 9])
            return width, height
        at += 2 if marker in _NO_LENGTH else 2 + int.from_bytes(header[at + 2 : at + 4])
    return None


_RuleT = TypeVar("_RuleT")


class RateRule(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per second of audio or video, rounded up."""

    per_second: int
    source: str
    as_of: str


class MediaRules(msgspec.Struct, frozen=True, kw_only=True):
    """All rules by name."""

    image: Mapping[str, ImageRule]
    audio: Mapping[str, RateRule]
    video: Mapping[str, RateRule]


preload_types(MediaRules)


@cache
def media_rules() -> MediaRules:
    """Return all rules."""
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

    def __init__(
        self,
        *,
        image: str | None = None,
        audio: str | None = None,
        video: str | None = None,
        max_document: int | None = None,
    ) -> None:
        """Count with the named rules. Without a name, the fallback rule applies and counts are approximate.

        A document counts at most `max_document` tokens.
        """
        self._max_document = max_document
        rules = media_rules()
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
            largest = 0 if size else self._image.count(MAX_ASSUMED_SIDE, MAX_ASSUMED_SIDE, part.detail)
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
