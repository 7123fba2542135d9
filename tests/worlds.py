"""Small lorebooks for tests."""

from brimful.lore import LoreIndex, PersonaInfo, Turn, activate
from brimful.records import Lorebook, LoreEntry


def entry(id, *keys, **more):
    return LoreEntry(id=id, lorebook="w", content=more.pop("content", f"About {id}."), keys=keys, **more)


def turns(*texts, last=None, roles=None):
    """Return turns, the newest first, of texts in order of time."""
    last = len(texts) if last is None else last
    first = last - len(texts) + 1
    lines = [
        Turn(
            id=f"m{first + at}",
            number=first + at,
            text=text,
            speaker="Ada",
            expects_reply=roles is None or roles[at] == "u",
        )
        for at, text in enumerate(texts)
    ]
    return lines[::-1]


NOBODY = PersonaInfo()


def run(
    entries, *texts, book=None, persona=NOBODY, retrieved=None, seed="room", tokens=lambda _: 10, last=None, roles=None
):
    book = book or Lorebook(id="w")
    messages = turns(*texts, last=last, roles=roles)
    return activate(
        LoreIndex({"w": book}, entries),
        messages,
        seed=seed,
        count_tokens=tokens,
        persona=persona,
        retrieved=retrieved or {},
    )


def activated(*args, **more):
    return [each.entry.id for each in run(*args, **more).activated]


def excluded(*args, **more):
    return {each.entry: each.reason for each in run(*args, **more).excluded}
