"""Facts with questions in other words, questions that nothing answers, and any number of notes about other things."""

FACTS = {
    "Marta is allergic to hazelnuts and carries a pen against it.": "Which nuts can make Marta ill?",
    "The spare key of the office hangs behind the boiler.": "Where do I find the second key to the office?",
    "Our dentist moved the appointment to Thursday at nine.": "When do we have to be at the dentist?",
    "Grandmother was born in a village near Odessa.": "Where does my grandmother come from?",
    "The database is backed up every night at two o'clock.": "How often do we make a copy of the database?",
    "Customers get a refund if a parcel comes a week late.": "What do buyers receive when their parcel is delayed?",
    "Tom plays the cello in a string quartet on Fridays.": "Which instrument does Tom play?",
    "The cat only eats salmon since she was sick in May.": "What food does our cat accept now?",
}
UNRELATED = (
    "What is 2 + 2?",
    "Who won the football match last night?",
    "Write a haiku about the sea.",
    "How do I say thank you in Portuguese?",
)

_THINGS = (
    *(
        "kettle",
        "ladder",
        "lamp",
        "drawer",
        "bicycle",
        "rug",
        "teapot",
        "hammer",
        "curtain",
        "shelf",
        "bucket",
        "toaster",
    ),
    *("armchair", "mirror", "wheelbarrow", "tent", "kite", "typewriter", "globe", "umbrella"),
)
_STATES = (
    *(
        "has a dent on its side",
        "was painted green",
        "came from a flea market",
        "squeaks in winter",
        "needs a new handle",
    ),
    *("is too heavy for the porch", "was a gift from a neighbor", "leans against the wall", "has lost a screw"),
    *("was cleaned with vinegar", "belongs in the attic", "is older than the house", "was made of copper"),
    *("stands beside the stairs", "will be sold at the bazaar", "was repaired with glue", "fell over in the storm"),
    *("is covered with dust", "was borrowed by the scouts", "looks better in daylight"),
)
_COLORS = (
    *("red", "blue", "yellow", "white", "striped", "rusty", "broken", "folding", "wooden", "tiny", "antique", "gray"),
)
_PLACES = (
    *("cellar", "hall", "garage", "shed", "kitchen", "garden", "barn", "loft", "balcony", "workshop", "pantry", "yard"),
)
_STRIDE = 35_599  # coprime to their number, so that all are different; those in a row have little in common


def notes(count: int) -> list[str]:
    """Return up to 57,600 different notes.

    >>> notes(2)
    ['The red kettle in the cellar has a dent on its side.', 'The gray umbrella in the yard fell over in the storm.']
    """
    return [_note(n * _STRIDE) for n in range(count)]


def _note(number: int) -> str:
    number, color = divmod(number, len(_COLORS))
    number, place = divmod(number, len(_PLACES))
    number, thing = divmod(number, len(_THINGS))
    state = _STATES[number % len(_STATES)]
    return f"The {_COLORS[color]} {_THINGS[thing]} in the {_PLACES[place]} {state}."
