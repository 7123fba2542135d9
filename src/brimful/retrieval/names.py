"""Find the speaker behind a name: people are often called something else than their account is."""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from brimful.cache import content_bytes, memoize
from brimful.packagers.records import plain_text
from brimful.records import Message
from brimful.retrieval.analyzer import STOPWORDS
from brimful.retrieval.time_expressions import mentions_time

MIN_ADDRESSES: Final = 2  # "Hey Kate!" once may be about anything
MIN_AGREEMENT: Final = 0.8  # of the addresses; a name that both sides use belongs to somebody else
MIN_MISSPELT: Final = 4  # letters; shorter names are too much alike
_CHARS_READ: Final = 200  # people are addressed at the start of a message
_WORDS_BEFORE: Final = 2  # such as a greeting: "Kate!", "Hey Kate!", "Good morning, Kate."
_SENTENCE_ENDS: Final = ".!?\n"
_PAUSES: Final = _SENTENCE_ENDS + ",;:"
_WORD: Final = re.compile(r"[^\W_]+")


def find_addressees(messages: Mapping[int, Message], names: Collection[str]) -> frozenset[str]:
    """Return the speakers who are addressed by one of these names, given in lower case, in messages by position.

    Whoever speaks just before or after the message is the one it addresses.

    >>> turns = [("emi", "I went skiing."), ("bo", "Hey Kate! Where?"), ("emi", "In Aspen."), ("bo", "Wow, Kate!")]
    >>> talk = {at: Message(id=f"m{at}", room="r", sender=who, content=text) for at, (who, text) in enumerate(turns)}
    >>> find_addressees(talk, {"kate"})
    frozenset({'emi'})
    """
    addressed: dict[str, Counter[str]] = {name: Counter() for name in names if not mentions_time(name)}
    for index, message in messages.items():
        text = plain_text(message.content)[:_CHARS_READ]
        beside = {messages[near].sender for near in (index - 1, index + 1) if near in messages} - {message.sender}
        called = _called_words(text)
        for name, counts in addressed.items():
            if name in called:
                counts.update(beside)
    best = [(*counts.most_common(1)[0], counts.total()) for counts in addressed.values() if counts]
    return frozenset(who for who, often, total in best if often >= max(MIN_ADDRESSES, MIN_AGREEMENT * total))


def _find_called_words(text: str) -> frozenset[str]:
    """Return the words, in lower case, by which a text may call somebody.

    They are capitalized, near the start of a sentence and before a pause.
    """
    called = set()
    for word in _WORD.finditer(text):
        if word[0][0].isupper() and text[word.end() :].lstrip(" ")[:1] in _PAUSES:
            start = max(text.rfind(end, 0, word.start()) for end in _SENTENCE_ENDS) + 1
            before = _WORD.findall(text[start : word.start()].casefold())
            # "In Paris, ..." addresses nobody.
            if len(before) <= _WORDS_BEFORE and STOPWORDS.isdisjoint(before):
                called.add(word[0].casefold())
    return frozenset(called)


# Cached, because the same messages are found again and again.
_called_words: Final = memoize(_find_called_words, name="texts", size=lambda args, _: content_bytes(args[0]))


def is_misspelt(word: str, name: str) -> bool:
    """Return whether a word is a name with one letter too many, too few, another one, or two in the wrong order.

    >>> [is_misspelt(word, "deborah") for word in ("deboran", "debora", "debborah", "debroah", "barbara", "deborah")]
    [True, True, True, True, False, False]
    """
    if word[0] != name[0] or word == name or min(len(word), len(name)) < MIN_MISSPELT:
        return False
    same = next((i for i, (a, b) in enumerate(zip(word, name, strict=False)) if a != b), min(len(word), len(name)))
    a, b = word[same:], name[same:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[1::-1] == b[:2] and a[2:] == b[2:])
