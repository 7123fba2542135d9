"""Order and names where something stands for something else."""

import brimful
from brimful import Media
from brimful.core.bands import bands_of
from brimful.core.content import ContentPackage
from brimful.core.order import reading_order
from brimful.core.sections import media_name
from brimful.core.tokens import Count

MODEL = "gpt-4o"


def test_a_summary_stands_where_its_cluster_stood():
    said = [
        brimful.package(
            "message-recent",
            f"Turn {n}: " + "word " * 40,
            model=MODEL,
            id=f"m{n}",
            position=n,
            role="user",
            cluster="old" if n < 4 else None,
        )
        for n in range(8)
    ]
    told = brimful.packagers.summary("Four turns.", of="old", counter=brimful.counter(MODEL), id="sum")
    now = brimful.package("message-current", "And now?", model=MODEL, id="now", position=9)
    context = brimful.assemble([*said, told, now], model=MODEL, window=400, completion=50, now=0.0)
    assert [d.id for d in context.decisions if d.outcome == "replaced"]
    order = reading_order(context)
    assert order["sum"] < order["m7"] < order["now"]


def test_a_picture_without_an_address_goes_by_its_id():
    part = Media(modality="image", data="aGk=")
    package = ContentPackage(id="i", kind="media-image", content=(part,), tokens=Count(tokens=1, basis="exact"))
    assert media_name(package) == "i"


def test_what_a_policy_caps_is_a_band():
    now = brimful.package("message-current", "And now?", model=MODEL, id="now")
    context = brimful.assemble([now], model=MODEL, policy="split", window=400_000, now=0.0)
    assert sum(band.tokens for band in bands_of(context)) == 400_000
    assert "capped" in {band.name for band in bands_of(context)}
