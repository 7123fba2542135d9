"""The bands of a window, and its picture."""

from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

import brimful
from brimful.views.picture import band_name, share_width, window_bands, window_html
from strategies import COUNTER, GENERATED_POLICIES, models, piles
from support import build, history
from test_laws import SLOW, build_if_it_fits


@SLOW
@given(piles(), GENERATED_POLICIES, models())
def test_bands_add_up_to_the_window(pile, policy, model):
    context = build_if_it_fits(pile, policy, model)
    found = window_bands(context)
    assert sum(band.tokens for band in found) == context.budget.window
    assert all(band.tokens >= 0 for band in found)
    rest = [band.name for band in found][-4:]
    assert rest[-3:] == ["free", "margin", "completion"] or rest == ["free", "margin", "capped", "completion"]


@SLOW
@given(piles(), GENERATED_POLICIES, models())
def test_bands_hold_every_item_once_and_the_pinned_ones_apart(pile, policy, model):
    context = build_if_it_fits(pile, policy, model)
    items = {band.name: band.items for band in window_bands(context)}
    assert sum(items.values()) == len(context.kept)
    included = [decision for decision in context.decisions if decision.included]
    assert items.get("pinned", 0) == sum(band_name(decision) == "pinned" for decision in included)


@given(st.lists(st.integers(0, 10**9), max_size=15), st.integers(15, 200))
def test_widths_fill_the_line_and_hide_nothing(parts, width):
    cells = share_width(parts, width)
    assert sum(cells) == (width if any(parts) else 0)
    assert all((cell > 0) is (part > 0) for part, cell in zip(parts, cells, strict=True))


class Strict(HTMLParser):
    """Notes every tag and attribute, and that what is opened is closed."""

    def __init__(self):
        super().__init__()
        self.tags, self.open, self.attributes = set(), [], []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(html):
    parser = Strict()
    parser.feed(html)
    assert parser.open == []
    return parser


EVIL = "<script>alert(1)</script>' onload='x \" & <img src=x>"


def test_the_picture_runs_no_script_and_asks_for_nothing():
    pile = [
        *history(30),
        brimful.packagers.memory("secret", counter=COUNTER, id=EVIL, relevance=0.1),
        brimful.packagers.package(EVIL, "word " * 900, counter=COUNTER, id="odd"),
    ]
    context = build(pile, window=300, degraded=(EVIL,))
    html = context._repr_html_()
    found = parsed(html)
    assert found.tags <= {
        *["div", "style", "b", "span", "svg", "rect", "title", "table", "tr", "td", "i", "p", "ul", "li", "code"]
    }
    assert not [name for name, _ in found.attributes if name.startswith("on") or name in ("src", "href")]
    assert "alert(1)" in html  # told, and harmless
    assert "<script" not in html
    assert "url(" not in html
    assert "@import" not in html


def test_the_picture_tells_the_numbers_of_the_report():
    context = build(
        [*history(40), brimful.packagers.memory("note", counter=COUNTER, id="m", relevance=1.0)], window=400
    )
    html = window_html(context)
    for number in (context.tokens, context.budget.window, context.remaining):
        assert f"{number:,}" in html
    svg = ET.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])  # noqa: S314 - our own
    drawn = [(float(rect.get("x")), float(rect.get("width"))) for rect in svg]
    assert sum(width for _, width in drawn) == pytest.approx(1000, abs=0.5)
    shown = [band for band in window_bands(context) if band.tokens]
    assert [rect[0].text.partition(":")[0] for rect in svg] == [band.title for band in shown]
    assert "prefers-color-scheme:dark" in html


@SLOW
@given(piles(), GENERATED_POLICIES, models())
def test_every_context_has_a_picture(pile, policy, model):
    parsed(window_html(build_if_it_fits(pile, policy, model)))


def test_a_cap_of_the_policy_is_a_band():
    now = brimful.package("message-current", "And now?", model="gpt-4o", id="now")
    context = brimful.assemble([now], model="gpt-4o", policy="split", window=400_000, now=0.0)
    assert sum(band.tokens for band in window_bands(context)) == 400_000
    assert "capped" in {band.name for band in window_bands(context)}
