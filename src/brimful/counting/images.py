"""How many tokens an image of so many pixels is: one value a kind of rule, its numbers in `media_rules.toml`."""

import math
from fractions import Fraction

import msgspec


class _Rule(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """`disputed` marks a rule whose numbers are reported differently by different users."""

    source: str
    as_of: str
    disputed: bool = False


class Fixed(_Rule, frozen=True, kw_only=True, tag="fixed"):
    """Every image costs the same."""

    tokens: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Return the flat price."""
        return self.tokens


class ByDetail(_Rule, frozen=True, kw_only=True, tag="detail"):
    """The price hangs on the wanted detail alone; `default` is for any detail that is not listed."""

    levels: dict[str, int]
    default: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Return the price of that detail."""
        return self.levels.get(detail, self.default)


class PerPixel(_Rule, frozen=True, kw_only=True, tag="pixels"):
    """So many pixels a token, rounded down."""

    pixels_per_token: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Return the image's share."""
        return width * height // self.pixels_per_token


class PlainTiles(_Rule, frozen=True, kw_only=True, tag="plain-tiles"):
    """A base and a price a tile, without any scaling."""

    base: int
    tile: int
    tile_side: int = 512

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Count tiles of the image as it is."""
        return self.base + self.tile * _cells(width, height, self.tile_side)


class Tiles(_Rule, frozen=True, kw_only=True, tag="tiles"):
    """OpenAI's: fit into a square, bring the short side down, then a price a tile; low detail is the base alone.

    `upscaled` brings the short side up as well, which some models do to small images.

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
        return self.base + self.tile * _cells(width * scale, height * scale, self.tile_side)


class Patches(_Rule, frozen=True, kw_only=True, tag="patches"):
    """OpenAI's newer one: patches of 32 pixels, shrunk until at most `most` remain, times a factor.

    >>> Patches(factor="1.62", most=1536, source="", as_of="").count(1920, 1080, "auto")
    2443
    """

    factor: str  # a decimal, kept as text: 2.46 as a binary fraction would round up where it must not
    most: int | None = None
    fit: int | None = None
    side: int = 32

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Shrink, then count patches."""
        scale = min(1.0, self.fit / max(width, height)) if self.fit else 1.0
        wide, high = width * scale, height * scale
        patches = _cells(wide, high, self.side)
        if self.most is not None and patches > self.most:
            patches = min(self.most, self._shrunk(wide, high, self.most))
        return math.ceil(patches * Fraction(self.factor))

    def _shrunk(self, width: float, height: float, most: int) -> int:
        scale = math.sqrt(self.side**2 * most / (width * height))
        columns, rows = width * scale / self.side, height * scale / self.side
        scale = min(math.floor(columns) / columns, math.floor(rows) / rows)
        # One of the two is a whole number by construction; rounding keeps the float from standing above it.
        return math.ceil(round(columns * scale, 6)) * math.ceil(round(rows * scale, 6))


class Cells(_Rule, frozen=True, kw_only=True, tag="cells"):
    """Anthropic's: cells of 28 pixels, the image first scaled down to a longest side and a number of cells.

    >>> Cells(side=28, longest=1568, most=1568, source="", as_of="").count(1920, 1080, "auto")
    1560
    """

    side: int
    longest: int
    most: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Return the cells at the largest scale that keeps both limits."""
        scale = min(Fraction(1), Fraction(self.longest, max(width, height)))
        cells = _cells(width * scale, height * scale, self.side)
        if cells <= self.most:
            return cells
        # A smaller scale gives fewer cells only where a side falls to a whole number of them: try those.
        whole = range(1, self.longest // self.side + 1)
        by_columns = (columns * -(-height * columns // width) for columns in whole)
        by_rows = (rows * -(-width * rows // height) for rows in whole)
        return max(cells for cells in (*by_columns, *by_rows) if cells <= self.most)


class CropUnits(_Rule, frozen=True, kw_only=True, tag="crop-units"):
    """Gemini 2's: a small image is one tile; a larger one is cut into units of its short side / 1.5.

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
        return self.tile * _cells(width, height, unit)


class SmartResize(_Rule, frozen=True, kw_only=True, tag="smart-resize"):
    """Qwen's: both sides to a multiple of `side`, the number of cells kept within limits.

    >>> SmartResize(side=28, least=4, most=1280, source="", as_of="").count(1920, 1080, "auto")
    1222
    """

    side: int
    least: int
    most: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Round to cells, and scale where there are too many or too few."""
        columns, rows = (max(1, round(length / self.side)) for length in (width, height))
        if columns * rows > self.most:
            scale = math.sqrt(width * height / (self.most * self.side**2))
            columns, rows = (max(1, math.floor(length / scale / self.side)) for length in (width, height))
        elif columns * rows < self.least:
            scale = math.sqrt(self.least * self.side**2 / (width * height))
            columns, rows = (math.ceil(length * scale / self.side) for length in (width, height))
        return columns * rows


class Rows(_Rule, frozen=True, kw_only=True, tag="rows"):
    """Mistral's: fit into a square; each row of patches ends with a token of its own.

    >>> Rows(side=16, fit=1024, source="", as_of="").count(1920, 1080, "auto")
    2340
    """

    side: int
    fit: int

    def count(self, width: int, height: int, detail: str) -> int:  # noqa: ARG002 - the signature of all rules
        """Count rows of patches and their ends."""
        ratio = max(width / self.fit, height / self.fit, 1.0)
        columns, rows = (max(1, math.ceil(round(length / ratio) / self.side)) for length in (width, height))
        return rows * (columns + 1)


class Canvas(_Rule, frozen=True, kw_only=True, tag="canvas"):
    """Llama's: the canvas of at most `most` tiles that fits best.

    The smallest canvas that holds the image unscaled wins, or else the one that shrinks it least. With `separators`, a
    picture of several tiles also has a global tile, a token between columns and after rows, and three around it.

    >>> Canvas(side=336, tile=144, most=16, separators=True, source="", as_of="").count(512, 512, "auto")
    727
    """

    side: int
    tile: int
    most: int
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
        canvases = [(c, r) for c in range(1, self.most + 1) for r in range(1, self.most // c + 1)]

        def scale(canvas: tuple[int, int]) -> Fraction:
            return min(Fraction(canvas[0] * self.side, width), Fraction(canvas[1] * self.side, height))

        holding = [canvas for canvas in canvases if scale(canvas) >= 1]
        best = min(map(scale, holding)) if holding else max(map(scale, canvases))
        return min((canvas for canvas in canvases if scale(canvas) == best), key=lambda canvas: canvas[0] * canvas[1])


class AnyRes(_Rule, frozen=True, kw_only=True, tag="anyres"):
    """LLaVA-NeXT's: a base view, and the best of a few grids without its padding, each row ending with a token.

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


ImageRule = (
    Fixed
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
)


def _cells(width: Fraction | float, height: Fraction | float, side: int) -> int:
    return math.ceil(width / side) * math.ceil(height / side)
