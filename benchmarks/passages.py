"""One sentence inside ever longer texts: whether it is found, and in the request, as often as on its own.

python benchmarks/passages.py           fifty sentences, all lengths, both windows
python benchmarks/passages.py --quick   ten sentences
"""

import argparse
import asyncio
import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from brimful import counter
from brimful.core.context import Context
from brimful.engine import Engine
from brimful.records import Lorebook, LoreEntry, Memory, Message, Room
from tables import Section, table

LENGTHS = (33, 330, 1_300, 2_700, 6_700, 30_000)  # tokens of the text around the sentence, and the sentence
WINDOWS = (8_192, 16_384)
MODEL = "gpt-4"
KINDS = ("message", "recent message", "memory", "lorebook entry")
CHAT_BEFORE, CHAT_AFTER, CHAT_RECENT = 20, 500, 6  # turns of small talk; 500 fill the larger window
START = 1_790_000_000.0
END = START + 60 * (CHAT_BEFORE + CHAT_AFTER + 2)
ABOUT = f"""This measures whether one sentence in a long text is found. A text of this many tokens about other things
contains a fact in one sentence. The text is a message with {CHAT_AFTER} turns of small talk after it, or with
{CHAT_RECENT} ("recent"); a memory; or a lorebook entry whose keyword is in the question. The question asks for the fact
in other words. "Found" is the percentage of questions for which the text is a candidate, and "in the request" that of
questions whose request contains the sentence, under the default policy with the static table. Sentences, questions and
texts were written for this benchmark."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence, a question that it answers, and the keyword of the question, which is marked below."""

    sentence: str
    question: str
    keyword: str


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    lines = iter(text.strip().splitlines())
    return zip(lines, lines, strict=True)


FACTS = tuple(
    Fact(sentence, question.replace("*", ""), question.split("*")[1])
    for sentence, question in _pairs("""
The spare key to the boathouse hangs behind the barometer in the hall.
Where do we hide the *boathouse* key?
Our landlord Mr. Okafor wants the rent by the third of each month.
When does the *landlord* expect his rent?
The vet said that Biscuit must not eat chicken because of his allergy.
What food is the dog *Biscuit* allergic to?
Grandmother's clock was repaired by a watchmaker in Ghent for 340 euros.
How much did it cost to fix grandmother's *clock*?
The code of the bicycle shed was changed to 4471 after the break-in.
What is the bike *shed* code now?
Leila is going to study marine geology in Bergen from next autumn.
What will *Leila* study?
The greenhouse heater switches on when it gets colder than six degrees.
At which temperature does the *greenhouse* heater start?
Uncle Piet proposed to Saskia on top of the lighthouse at Texel.
Where did *Piet* propose to Saskia?
The warranty of the dishwasher runs out on 14 February 2028.
Until when is the *dishwasher* under warranty?
Marta's violin was made by Carlo Landolfi in Milan around 1760.
Who built Marta's *violin*?
The school bus to Aldersley leaves from the chapel at ten past seven.
What time does the bus to *Aldersley* go?
Dr. Venkataraman recommended magnesium against the cramps at night.
What did the doctor suggest for night *cramps*?
The attic window leaks whenever the rain comes from the north-east.
When does the window in the *attic* leak?
We named the sailing boat Perpetua after my mother's favourite aunt.
What is our *sailing* boat called?
The wifi password of the holiday cottage is sunken-anchor-19.
What is the *cottage*'s wifi password?
Kenji's restaurant closes on Mondays and on the last Sunday of a month.
On which days is *Kenji*'s restaurant shut?
The old oak by the river was struck by lightning in the summer of 1987.
When did lightning hit the *oak*?
For the sourdough you need 430 grams of rye and a pinch of caraway.
How much rye goes into the *sourdough*?
The insurance refused to pay because the brakes had not been inspected.
Why did the *insurance* not pay?
Father keeps the deeds of the farm in a biscuit tin under the stairs.
Where are the farm's *deeds*?
Nadia broke her collarbone when she fell off the climbing wall.
Which bone did *Nadia* break?
The museum lends audio guides free of charge to members only.
Who gets audio guides at the *museum* for free?
The choir rehearses the Fauré requiem in the gymnasium this winter.
Which piece is the *choir* rehearsing?
The printer on the second floor needs the cartridge HX-220.
Which cartridge fits the *printer* upstairs?
Tomasz paid nineteen thousand for the second-hand camper van.
What was the price of Tomasz's *camper*?
The wedding of Ingrid and Paulo takes place in a vineyard near Porto.
Where does the *wedding* of Ingrid and Paulo happen?
The river floods the lower meadow about once every seven years.
How often is the lower *meadow* under water?
Aisha's thesis deals with the bread riots in Naples.
What is Aisha writing her *thesis* about?
The blue pills must be taken in the morning before breakfast.
When should I take the blue *pills*?
The tunnel under the pass is closed for repairs until Easter.
How long will the *tunnel* stay closed?
Coach Halloran moved Ben from goalkeeper to left wing.
Which position did *Halloran* give to Ben?
The recipe for the plum cake came from a baker in Linz.
Who gave us the *plum* cake recipe?
The gas meter stands in the cellar behind the wine rack.
Where can the man read the *gas* meter?
Yusuf's flight from Amman lands at twenty to midnight.
What time does *Yusuf*'s plane arrive?
The piano tuner comes every March and charges ninety pounds.
How much does the *piano* tuner ask for?
The beehives were moved to the orchard because of the new road.
What was the reason for moving the *bees*?
Sergeant Doyle found the stolen tractor in a quarry.
Where did the stolen *tractor* turn up?
The lease of the allotment ends when we leave it unplanted for a year.
What makes us lose the *allotment*?
Ottoline prefers the window seat because she gets sick on trains.
Why does *Ottoline* want to sit at the window?
The scholarship covers the tuition but not the rent.
What does the *scholarship* not pay for?
The ferry to Inishmore does not sail when waves are above three metres.
In what weather does the *Inishmore* ferry stay in port?
The emergency generator runs for eleven hours on a full tank.
How long does the *generator* last?
The carpenter measured the bookcase at 2.14 metres.
How tall is the *bookcase*?
Renske's daughter is called Fenna and was born in a taxi.
What is the name of *Renske*'s daughter?
The chess club meets above the ironmonger's on Thursdays.
Where does the *chess* club come together?
The telescope was a gift from the astronomers of Tartu.
Who gave us the *telescope*?
The hikers turned back because the rope bridge was missing two planks.
Why did the *hikers* give up?
The mayor promised a new roof for the swimming pool by 2029.
What did the *mayor* promise for the swimming pool?
The parrot learned to imitate the doorbell within a week.
Which sound can the *parrot* imitate?
The tax office accepts receipts up to four years old.
How old may *receipts* for the tax office be?
""")
)

_PROSE = """
In the {season} the {place} was almost empty, and people walked slowly along the {feature}.
{name} had written three pages about the {subject}, and nobody on the committee had read them.
The second part of the report compares {subject} in {city} with that of {number} other towns.
It is often said that {subject} is a matter of patience, but {name} would not agree.
A {adjective} wind came up in the afternoon and blew the {object} across the {place}.
According to the minutes, the meeting about {subject} lasted {number} minutes longer than planned.
There were {number} {object}s on the table, most of them {adjective}, and a jug of water.
{name} remembered the {season} in {city} as a time of long letters and short conversations.
The method has two weaknesses: it is {adjective}, and it depends on the {object} that is used.
Some visitors come for the {feature}, others only because {city} is on their way.
What matters in {subject} is not the first impression but the steady work of years.
The catalogue lists {number} items, from a {adjective} {object} to a map of the {place}.
Later that {season} the firm opened an office in {city} and hired {number} people.
If the {object} is {adjective}, put it aside and begin again with a smaller one.
The lecture dealt with {subject}, and with the reasons for which it was neglected for so long.
On the way back we passed the {feature}, which looked {adjective} in the evening light.
The article ends with a list of questions about {subject} that have no answer yet.
{name} and {other} disagreed about the {object}, politely at first and then less so.
Between the {place} and the {feature} there is a path that few people know.
Nobody counted the {object}s exactly, but there must have been more than {number}.
The first edition sold {number} copies, mostly in {city} and the villages around it.
It took {name} a whole {season} to understand how {subject} is taught there.
The room was {adjective}, with a view of the {feature} and a shelf full of {object}s.
Critics of the plan point out that {subject} has changed since {name} wrote about it.
""".strip().splitlines()
_SLOTS = {
    "season": ["spring", "summer", "autumn", "winter"],
    "place": ["market square", "harbour", "railway station", "park", "old town", "valley", "quarter", "courtyard"],
    "feature": ["canal", "city wall", "row of lime trees", "bridge", "promenade", "tower", "arcade", "hill"],
    "subject": [
        *("public lighting", "bookbinding", "the teaching of drawing", "street names", "local trade", "letter writing"),
        *("map making", "the care of gardens", "translation", "town planning", "pottery", "amateur theatre"),
    ],
    "city": ["Lyon", "Graz", "Utrecht", "Turku", "Padua", "Leeds", "Salamanca", "Brno", "Aarhus", "Coimbra"],
    "name": ["Vera", "Anselm", "Judith", "Ruben", "Clara", "Matteo", "Edda", "Joost", "Irina", "Samuel"],
    "other": ["Paula", "Gregor", "Hanne", "Luis", "Odile", "Viktor"],
    "adjective": ["heavy", "plain", "unusual", "cheerful", "faded", "narrow", "bright", "modest", "careful", "grey"],
    "object": ["lamp", "chair", "notebook", "basket", "poster", "kettle", "scarf", "umbrella", "frame", "bench"],
}
_CHAT = """
Good morning, how did you sleep?
Not bad. I watched a film about {subject} and went to bed late.
Did you see what {name} posted from {city}?
Yes, the {feature} looked {adjective}. I would like to go there in {season}.
I am reading a novel set in {city}; it is a bit {adjective}.
Shall we cook something simple tonight?
Pasta is fine with me, or the soup from yesterday.
{name} asked whether we come to the party at the {place}.
I still have to answer {number} mails, so maybe later.
The weather is {adjective} again, typical for {season}.
Thanks! That helps a lot.
I bought a {adjective} {object} today, and it was cheap.
Let us talk about it tomorrow.
""".strip().splitlines()


class Prose:
    """Sentences about other things, different for each seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def sentence(self, templates: Sequence[str] = _PROSE) -> str:
        """Return one sentence."""
        chosen = {name: self._random.choice(values) for name, values in _SLOTS.items()}
        return self._random.choice(templates).format(**chosen, number=self._random.randint(12, 900))

    def around(self, sentence: str, tokens: int) -> str:
        """Return a text of so many tokens with the sentence somewhere inside, in paragraphs."""
        left = tokens - COUNTER.text(sentence).upper
        sentences = []
        while left > 0 and tokens > LENGTHS[0]:
            sentences.append(self.sentence())
            left -= COUNTER.text(sentences[-1]).upper
        sentences.insert(self._random.randint(0, len(sentences)), sentence)
        breaks = (("\n\n" if self._random.random() < 0.2 else " ") for _ in sentences)
        return "".join(part for pair in zip(sentences, breaks, strict=True) for part in pair).strip()

    def chat(self, turns: int) -> list[str]:
        """Return so many turns of small talk."""
        return [self.sentence(_CHAT) for _ in range(turns)]


COUNTER = counter(MODEL)


@dataclass(frozen=True, slots=True)
class Score:
    """How many of the questions found the text, and have the sentence in the request."""

    found: int = 0
    included: int = 0

    def plus(self, *, found: bool, included: bool) -> "Score":
        """Count one more question."""
        return Score(self.found + found, self.included + included)


def report(data: Path | None = None, *, quick: bool) -> Section:
    del data
    facts = FACTS[::5] if quick else FACTS
    tables = []
    for kind in KINDS:
        scores = [asyncio.run(_measure(kind, facts, length)) for length in LENGTHS]
        head = [f"{kind}, {len(facts)} questions", *(f"{length:,}" for length in LENGTHS)]
        tables.append(table(head, [row for window in WINDOWS for row in _rows(scores, window, len(facts))]))
    return Section("Long texts", ABOUT, tuple(tables))


def _rows(scores: Sequence[dict[int, Score]], window: int, questions: int) -> list[list[str]]:
    share = 100 / questions
    return [
        [f"found, window of {window:,}", *(f"{score[window].found * share:.0f}" for score in scores)],
        [f"in the request, window of {window:,}", *(f"{score[window].included * share:.0f}" for score in scores)],
    ]


async def _measure(kind: str, facts: Sequence[Fact], length: int) -> dict[int, Score]:
    print(f"  passages: {kind} of {length} tokens", flush=True)
    scores = dict.fromkeys(WINDOWS, Score())
    with tempfile.TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/store.db", model=MODEL, embedder="static", indexing=False) as engine:
            for number, fact in enumerate(facts):
                await _write(engine, kind, fact, Prose(number).around(fact.sentence, length), str(number))
            await engine.index()
            for number, fact in enumerate(facts):
                for window in WINDOWS:
                    context = await engine.assemble(
                        room=f"r{number}",
                        persona=f"p{number}",
                        message=fact.question,
                        window=window,
                        save=False,
                        now=END,
                    )
                    found, included = _is_candidate(context), _is_included(context, fact)
                    scores[window] = scores[window].plus(found=found, included=included)
    return scores


async def _write(engine: Engine, kind: str, fact: Fact, text: str, number: str) -> None:
    prose = Prose(1_000 + int(number))
    before, after = prose.chat(CHAT_BEFORE), prose.chat(CHAT_AFTER if kind == "message" else CHAT_RECENT)
    turns = [*before, text, *after] if "message" in kind else [*before, *after]
    room = f"r{number}"
    await engine.put(Room(id=room, lorebooks=(f"b{number}",) if kind == "lorebook entry" else ()))
    await engine.post_many(list(_messages(room, turns, text)))
    if kind == "memory":
        notes = [
            Memory(id=f"n{number}-{at}", persona=f"p{number}", content=each, at=START) for at, each in enumerate(before)
        ]
        await engine.remember_many([*notes, Memory(id=f"text{number}", persona=f"p{number}", content=text, at=START)])
    if kind == "lorebook entry":
        await engine.put(Lorebook(id=f"b{number}"))
        await engine.write_lore(
            [LoreEntry(id=f"text{number}", lorebook=f"b{number}", keys=(fact.keyword,), content=text)]
        )


def _messages(room: str, turns: Sequence[str], text: str) -> Iterator[Message]:
    for at, turn in enumerate(turns):
        id = f"text-{room}" if turn == text else f"{room}-{at}"
        yield Message(id=id, room=room, role="assistant" if at % 2 else "user", content=turn, at=START + 60 * at)


def _is_candidate(context: Context) -> bool:
    return any(package.id.startswith("text") for package in context.inputs.packages)


def _is_included(context: Context, fact: Fact) -> bool:
    return fact.sentence in json.dumps(context.request, ensure_ascii=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    print(report(quick=parser.parse_args().quick).markdown())
