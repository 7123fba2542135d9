"""The rules by which models count images, audio and video.

A model's `image_rule`, `audio_rule` and `video_rule` name one of `MEDIA_RULES`.
"""

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

import msgspec

_AS_OF: Final = "2026-11"  # when the sources were read


class _ImageRule(msgspec.Struct, frozen=True, kw_only=True):
    """`disputed` marks a rule for which users report different numbers."""

    source: str
    as_of: str = _AS_OF
    disputed: bool = False


class FixedCost(_ImageRule, frozen=True, kw_only=True):
    """Every image costs the same."""

    tokens: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        return self.tokens


class ByDetail(_ImageRule, frozen=True, kw_only=True):
    """The cost depends on the detail only; `default` is for details that are not listed."""

    levels: dict[str, int]
    default: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        return self.levels.get(detail, self.default)


class PerPixel(_ImageRule, frozen=True, kw_only=True):
    """A fixed number of pixels per token, rounded down."""

    pixels_per_token: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        return width * height // self.pixels_per_token


class PlainTiles(_ImageRule, frozen=True, kw_only=True):
    """A base cost and a cost per tile, without scaling."""

    base: int
    tile: int
    tile_side: int = 512

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        return self.base + self.tile * _count_cells(width, height, self.tile_side)


class Tiles(_ImageRule, frozen=True, kw_only=True):
    """OpenAI: fit into a square, scale the short side down, then a cost per tile. Low detail costs only the base.

    With `upscaled`, the short side of small images is scaled up as well.

    >>> Tiles(base=85, tile=170, source="").count(1024, 1024, "auto")
    765
    """

    base: int
    tile: int
    tile_side: int = 512
    fit: int = 2048
    short_side: int = 768
    upscaled: bool = False

    def count(self, width: int, height: int, detail: str) -> int:
        if detail == "low":
            return self.base
        scale = min(Fraction(1), Fraction(self.fit, max(width, height)))
        to_short = Fraction(self.short_side) / (min(width, height) * scale)
        scale *= to_short if self.upscaled else min(Fraction(1), to_short)
        return self.base + self.tile * _count_cells(width * scale, height * scale, self.tile_side)


class Patches(_ImageRule, frozen=True, kw_only=True):
    """OpenAI, newer models: patches of 32 pixels, scaled down to at most `max_patches`, times a factor.

    >>> Patches(factor="1.62", max_patches=1536, source="").count(1920, 1080, "auto")
    2443
    """

    factor: str  # a decimal as a string: a binary 2.46 would sometimes round up
    max_patches: int | None = None
    fit: int | None = None
    side: int = 32

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
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


class Cells(_ImageRule, frozen=True, kw_only=True):
    """Anthropic: cells of 28 pixels, after scaling down to a maximum side and number of cells.

    >>> Cells(side=28, max_side=1568, max_cells=1568, source="").count(1920, 1080, "auto")
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


class CropUnits(_ImageRule, frozen=True, kw_only=True):
    """Gemini 2: a small image is one tile; a larger one is divided into units of its short side / 1.5.

    >>> CropUnits(tile=258, small=384, source="").count(1920, 1080, "auto")
    1548
    """

    tile: int
    small: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        if max(width, height) <= self.small:
            return self.tile
        unit = max(1, min(width, height) * 2 // 3)
        return self.tile * _count_cells(width, height, unit)


class SmartResize(_ImageRule, frozen=True, kw_only=True):
    """Qwen: both sides are rounded to a multiple of `side`, and the number of cells is kept within limits.

    >>> SmartResize(side=28, min_cells=4, max_cells=1280, source="").count(1920, 1080, "auto")
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


class Rows(_ImageRule, frozen=True, kw_only=True):
    """Mistral: fit into a square; each row of patches ends with an extra token.

    >>> Rows(side=16, fit=1024, source="").count(1920, 1080, "auto")
    2340
    """

    side: int
    fit: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        ratio = max(width / self.fit, height / self.fit, 1.0)
        columns, rows = (max(1, math.ceil(round(length / ratio) / self.side)) for length in (width, height))
        return rows * (columns + 1)


class Canvas(_ImageRule, frozen=True, kw_only=True):
    """Llama: the best canvas of at most `max_tiles` tiles.

    The smallest canvas that holds the unscaled image wins, otherwise the one that shrinks it least. With `separators`,
    an image of several tiles also has a global tile, a token between columns and after rows, and three around it.

    >>> Canvas(side=336, tile=144, max_tiles=16, separators=True, source="").count(512, 512, "auto")
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


class AnyRes(_ImageRule, frozen=True, kw_only=True):
    """LLaVA-NeXT: a base view, and the best of a few grids without padding, each row ending with a token.

    >>> AnyRes(side=336, patches=24, grids=((1, 2), (2, 1), (2, 2), (3, 1), (1, 3)), source="").count(
    ...     1920, 1080, "auto")
    1948
    """

    side: int
    patches: int
    grids: tuple[tuple[int, int], ...]  # columns and rows

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
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


class RatioTiles(_ImageRule, frozen=True, kw_only=True):
    """InternVL: the grid of at most `max_tiles` tiles whose ratio of sides is nearest, and a thumbnail of the whole.

    Of several grids with that ratio, the largest that the image fills at least by half.

    >>> RatioTiles(side=448, tile=256, max_tiles=12, source="").count(1920, 1080, "auto")
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


class Slices(_ImageRule, frozen=True, kw_only=True):
    """MiniCPM-V: a view of the whole, and slices of about `side` pixels in the grid with the most similar shape.

    >>> Slices(side=448, tile=64, max_slices=9, source="").count(1024, 1024, "auto")
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


class RateRule(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per second of audio or video, rounded up."""

    per_second: int
    source: str
    as_of: str = _AS_OF


class MediaRules(msgspec.Struct, frozen=True, kw_only=True):
    """All rules by name."""

    image: Mapping[str, ImageRule]
    audio: Mapping[str, RateRule]
    video: Mapping[str, RateRule]


_OPENAI_TILES: Final = (
    (85, 170, "gpt-4o"),  # and 4.1, 4.5, 4-turbo
    (2833, 5667, "gpt-4o-mini"),
    (70, 140, "gpt-5"),
    (75, 150, "o1 and o3"),
)
"""The costs of the base and of a tile, and the models that have them."""


def _make_tiles(base: int, tile: int, models: str) -> Iterator[tuple[str, Tiles]]:
    """Yield the documented rule, and the one with upscaling."""
    guide, name = "OpenAI, Images and vision guide", f"openai-tiles-{base}-{tile}"
    yield name, Tiles(base=base, tile=tile, source=f"{guide}: cost of {models}")
    upscaled = f"{guide}; small images scaled up, as some users are billed"
    yield f"{name}-upscaled", Tiles(base=base, tile=tile, upscaled=True, source=upscaled)


MEDIA_RULES: Final = MediaRules(
    image={
        # -- OpenAI
        **dict(named for row in _OPENAI_TILES for named in _make_tiles(*row)),
        "openai-patches-1.62": Patches(  # gpt-4.1-mini, gpt-5-mini
            factor="1.62", max_patches=1536, fit=2048, source="OpenAI, Images and vision guide: 32 px patches"
        ),
        "openai-patches-2.46": Patches(  # gpt-4.1-nano, gpt-5-nano
            factor="2.46", max_patches=1536, fit=2048, source="OpenAI, Images and vision guide: 32 px patches"
        ),
        "openai-patches-1.72": Patches(  # o4-mini
            factor="1.72", max_patches=1536, fit=2048, source="OpenAI, Images and vision guide: 32 px patches"
        ),
        "openai-patches-2500": Patches(  # gpt-5.4, high detail
            factor="1.2", max_patches=2500, fit=2048, disputed=True, source="OpenAI, Images and vision guide: gpt-5.4"
        ),
        "openai-patches-original": Patches(  # gpt-5.6, gpt-6: not resized; refused above 30,000 patches
            factor="1.2", disputed=True, source="OpenAI, Images and vision guide: detail original"
        ),
        # -- Anthropic, Google
        "claude-standard": Cells(side=28, max_side=1568, max_cells=1568, source="Anthropic, Vision: image costs"),
        "claude-high": Cells(  # Opus 4.7 and 4.8, Sonnet 5 and later
            side=28, max_side=2576, max_cells=4784, source="Anthropic, Vision: high resolution"
        ),
        "gemini-2": CropUnits(tile=258, small=384, source="Google, Gemini API: image understanding, tokens"),
        "gemini-3": ByDetail(
            default=1120,
            levels={"low": 280, "medium": 560, "high": 1120, "ultra": 2240},
            source="Google, Gemini API: media resolution",
        ),
        # -- Open models
        "qwen2-vl": SmartResize(  # Qwen2-VL, Qwen2.5-VL
            side=28, min_cells=4, max_cells=16_384, source="Qwen2-VL: smart_resize, model defaults"
        ),
        "qwen2-vl-1280": SmartResize(
            side=28,
            min_cells=4,
            max_cells=1280,
            source="Qwen2-VL: smart_resize, default limits of the Hugging Face image processor",
        ),
        "qwen3-vl": SmartResize(
            side=32,
            min_cells=64,
            max_cells=16_384,
            source="Qwen3-VL: smart_resize, shortest_edge 65536 and longest_edge 16777216 of its preprocessor",
        ),
        "llava-1.5": FixedCost(tokens=576, source="LLaVA 1.5: 24 x 24 patches"),
        "llava-next": AnyRes(
            side=336,
            patches=24,
            grids=((2, 1), (1, 2), (2, 2), (1, 3), (3, 1)),
            source="LLaVA-NeXT 336: image_grid_pinpoints of its configuration",
        ),
        "pixtral": Rows(side=16, fit=1024, source="mistral-common: image encoder of Pixtral"),
        "mistral-small-3.1": Rows(
            side=28, fit=1540, source="mistral-common: image encoder of Mistral Small 3.1 (14 px patches merged by two)"
        ),
        "llama-4": Canvas(
            side=336, tile=144, max_tiles=16, separators=True, source="Llama 4: image processor and prompt format"
        ),
        "llama-3.2-vision": Canvas(side=560, tile=1601, max_tiles=4, source="Llama 3.2 Vision: image processor"),
        "gemma-3": FixedCost(
            tokens=256, source="Gemma 3: mm_tokens_per_image of its configuration, without pan and scan"
        ),
        "internvl": RatioTiles(  # InternVL 2, 2.5 and 3
            side=448,
            tile=256,
            max_tiles=12,
            source="InternVL: dynamic_preprocess with max_dynamic_patch and use_thumbnail of its configuration",
        ),
        "minicpm-v": Slices(  # 2.5 and later; each slice has two markers, which servers write in different ways
            side=448,
            tile=64,
            max_slices=9,
            disputed=True,
            source="MiniCPM-V: get_sliced_grid with max_slice_nums and query_num of its configuration",
        ),
        # -- The older rules of thumb
        "seed-gpt4v": PlainTiles(
            base=85, tile=127, source="rule of thumb of 2025: 127 a tile, the mean of 85 and 170", as_of="2025-11"
        ),
        "seed-claude3": FixedCost(tokens=1600, source="rule of thumb of 2025", as_of="2025-11"),
        "seed-qwen": PerPixel(
            pixels_per_token=500, source="rule of thumb of 2025: 0.002 tokens a pixel", as_of="2025-11"
        ),
        "seed-llava": FixedCost(tokens=256, source="rule of thumb of 2025", as_of="2025-11"),
        "seed-default": PerPixel(
            pixels_per_token=750, source="rule of thumb of 2025: width x height / 750", as_of="2025-11"
        ),
    },
    audio={
        "openai-audio": RateRule(
            per_second=10, source="OpenAI, Realtime and audio guide: user audio, 1 token per 100 ms"
        ),
        "openai-audio-assistant": RateRule(
            per_second=20, source="OpenAI, Realtime and audio guide: assistant audio, 1 token per 50 ms"
        ),
        "gemini-2-audio": RateRule(per_second=32, source="Google, Gemini API: understand and count tokens"),
        "gemini-3-audio": RateRule(per_second=25, source="Google, Gemini API: understand and count tokens"),
        "qwen2.5-omni-audio": RateRule(per_second=25, source="Qwen2.5-Omni technical report"),
        "qwen3-omni-audio": RateRule(per_second=13, source="Qwen3-Omni technical report: 12.5 a second, rounded up"),
    },
    video={
        "gemini-2-video": RateRule(per_second=263, source="Google, Gemini API: understand and count tokens"),
        "gemini-3-video": RateRule(per_second=70, source="Google, Gemini API: 70 a frame at one frame a second"),
        "gemini-3-video-high": RateRule(per_second=280, source="Google, Gemini API: 280 a frame at one frame a second"),
        "qwen3-vl-video": RateRule(per_second=1536, source="Qwen3-VL: at most 768 a frame at two frames a second"),
    },
)
