"""Rooms to clean up: floods, busy days, and a whole year."""

import random

from brimful.records import Message

NOW = 1_794_744_000.0  # 2026-11-15, 12:00
DAY = 86_400.0

PEOPLE = ("Ada", "Bo", "Cy", "Di", "Ed", "Flo")
SUBJECTS = {
    "release": "the release needs another round of tests before Thursday",
    "garden": "the tomatoes on the roof want water twice a day in this heat",
    "invoices": "the invoices of March are still waiting for a signature",
    "sailing": "the boat leaves the harbour at six if the wind holds",
    "database": "the database was moved to the new machine over the weekend",
    "lunch": "the noodle place around the corner has a new cook",
}
WORDS = [
    "really",
    "perhaps",
    "today",
    "tomorrow",
    "again",
    "finally",
    "nobody",
    "everybody",
    "quick",
    "slow",
    "better",
    "worse",
    "early",
    "late",
    "north",
    "south",
    "blue",
    "green",
    "paper",
    "window",
    "table",
    "bridge",
    "river",
    "engine",
    "letter",
    "number",
    "winter",
    "summer",
    "coffee",
    "music",
    "doctor",
    "lawyer",
    "pilot",
]


def make_message(id, text, *, at=NOW - 3600, room="r", sender="Ada", **more):
    return Message(id=id, room=room, content=text, sender=sender, at=at, **more)


def flood(count, *, at=NOW - 7200, room="r", name="spam", every=0.2):
    """Return a flood as bots write it: a template with names and numbers that vary."""
    rng = random.Random(name)
    return [
        make_message(
            f"{name}-{n}",
            f"CONGRATS {rng.choice(PEOPLE)}! You won {rng.randrange(100, 9999)} EUR in our {name} lottery, "
            f"claim it at http://win.example/{rng.randrange(10**6)} within {rng.randrange(2, 48)} hours",
            at=at + n * every,
            room=room,
            sender=f"bot{n % 3}",
        )
        for n in range(count)
    ]


def echoes(count, *, at=NOW - 7200, room="r"):
    """Return a flood in which names vary, and numbers do not: however few and slow, it tells nothing new."""
    text = "CONGRATS {}! You won 5000 EUR in our spring lottery, claim it at http://win.example/77 within 24 hours"
    return [
        make_message(f"spam-{n}", text.format(PEOPLE[n % 6]), at=at + n, room=room, sender=f"bot{n % 3}")
        for n in range(count)
    ]


def chatter(count, *, at, room="r", seed=0, prefix="m", every=60.0):
    """Return a conversation in which people say different things about a few subjects."""
    rng = random.Random(seed)
    said_so_far = []
    for n in range(count):
        subject = rng.choice(list(SUBJECTS))
        extra = " ".join(rng.choices(WORDS, k=rng.randrange(4, 12)))
        text = f"About {subject}: {SUBJECTS[subject]}, {extra}."
        said_so_far.append(make_message(f"{prefix}{n}", text, at=at + n * every, room=room, sender=rng.choice(PEOPLE)))
    return said_so_far


def a_year(a_day, *, end=NOW, room="r", days=365):
    """Return a year of a busy room, and on one of its days, long ago, something to be remembered."""
    rooms = []
    for day in range(days):
        begin = end - (days - day) * DAY + DAY / 3
        rooms += chatter(a_day, at=begin, room=room, seed=day, prefix=f"d{day}-", every=DAY / 2 / a_day)
        if day == days // 3:
            text = "The passphrase of the old vault is heliotrope-cormorant, please keep it safe."
            rooms.append(make_message("secret", text, at=begin + DAY / 2 + 60, room=room, sender="Ada"))
    return rooms
