"""What a model saw, section by section."""

from hypothesis import given

import brimful
from brimful.packagers import lorebook_entry, media, memory, message, package
from brimful.views.sections import excluded_decisions, media_name, sections
from strategies import COUNTER, GENERATED_POLICIES, NOW, models, piles
from support import build, history
from test_laws import SLOW, build_if_it_fits


@SLOW
@given(piles(), GENERATED_POLICIES, models())
def test_every_candidate_is_in_one_part_or_among_those_left_out(pile, policy, model):
    context = build_if_it_fits(pile, policy, model)
    seen = [entry.decision for section in sections(context) for entry in section.entries]
    out = list(excluded_decisions(context))
    assert sorted(seen + out, key=repr) == sorted(context.decisions, key=repr)
    assert all(decision.included for decision in seen)
    assert not any(decision.included for decision in out)
    for section in sections(context):
        assert section.tokens == sum(entry.decision.cost for entry in section.entries)
        assert section.entries


def everything(**options):
    picture = brimful.Media(modality="image", url="https://x.example/a.png")
    pile = [
        package("system-prompt", "be kind", counter=COUNTER, id="sys"),
        memory("always tea", counter=COUNTER, id="pinned", pinned=True),
        *history(3),
        memory("once tea", counter=COUNTER, id="mem", relevance=0.9),
        lorebook_entry("tea grows", counter=COUNTER, id="lore"),
        media(picture, counter=COUNTER, id="pic"),
        message("what now", counter=COUNTER, id="now", current=True, timestamp=NOW),
    ]
    return build(pile, **options)


def test_parts_stand_as_they_stand_in_the_prompt():
    names = ["system", "pinned", "recent", "memories", "lorebook", "media", "current"]
    assert [section.name for section in sections(everything())] == names
    before = {"layout.related": "system"}
    moved = [section.name for section in sections(everything(overrides=before))]
    assert moved == ["system", "pinned", "memories", "lorebook", "recent", "media", "current"]
    content = str(everything().request)
    places = [content.index(text) for text in ("be kind", "always tea", "word", "once tea", "a.png", "what now")]
    assert places == sorted(places)


def test_the_nearest_to_the_cut_come_first():
    out = list(excluded_decisions(build(history(60), window=300)))
    below = [decision.rank - decision.cut for decision in out]
    assert below == sorted(below) != []
    assert out[0].id > out[-1].id  # history ends with the oldest


def test_a_picture_without_an_address_goes_by_its_id():
    assert media_name(media(brimful.Media(modality="image", data="aGk="), counter=COUNTER, id="i")) == "i"
