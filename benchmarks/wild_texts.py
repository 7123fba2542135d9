"""Texts of every kind that people and programs write, from one source of chance."""

import random
from collections.abc import Callable, Sequence
from typing import Final

WORDS: Final = (
    *("the", "a", "window", "filled", "to", "brim", "never", "spill", "Order", "W12345", "don't", "I'll", "we've"),
    *(
        "Straße",
        "naïve",
        "cœur",
        "ñandú",
        "Привет",
        "мир",
        "γειά",
        "שלום",
        "مرحبا",
        "नमस्ते",
        "สวัสดี",
        "안녕하세요",
        "tiếng",
    ),
    *(
        "e\u0301te\u0301",
        "A\u030angstro\u0308m",
        "ﬁne",
        "Ⅷ",
        "x²",
        "½",
        "…",
        "–",
        "“quoted”",
        "CamelCaseName",
        "snake_case",
    ),
)
MARKS: Final = (
    " ",
    " ",
    " ",
    " ",
    "  ",
    "\n",
    "\n\n",
    ", ",
    ". ",
    "! ",
    "\t",
    " - ",
    "\r\n",
    "\u00a0",
    "\u200b",
    "'s ",
)
EMOJI: Final = ("👍", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🧑🏽‍🚀", "🇨🇭", "❤️", "☕", "1️⃣", "🫠", "(╯°□°)╯︵ ┻━┻")
SCRIPTS: Final = (
    (0x4E00, 0x9FFF),
    (0x3040, 0x30FF),
    (0xAC00, 0xD7A3),
    (0x0600, 0x06FF),
    (0x0900, 0x097F),
    (0x0E01, 0x0E5B),
)
ANYTHING: Final = (
    (0x01, 0x2FF),
    (0x300, 0x36F),
    (0x370, 0x1FFF),
    (0x2000, 0x2BFF),
    (0x1F000, 0x1FAFF),
    (0x20000, 0x2FFFF),
)
CODE: Final = (
    'def f(x: int = 1) -> str:\n    """Say it."""\n    return f"{x!r:>10}"\n',
    "<table class='a'><tr><td>&nbsp;1</td></tr></table>\n",
    "for (let i = 0; i < 10; ++i) {\n\tconsole.log(`${i}`);\n}\n",
    "SELECT * FROM orders WHERE id = '#W1' -- all\n\t\tAND total >= 12.50;\n",
    '```json\n{"a": [1, 2.50, null, true], "b\\n": "\\u00e9"}\n```\n',
    "$ curl -s https://example.com/a?b=c%20d&e=%F0%9F%91%8D | jq '.[] | {a}' > /dev/null 2>&1\n",
    "{{ user }} {% if x %}{{ '{{' }}{% endif %} {# no #}\n",
)


class WildTexts:
    """Writes texts; `special` are tokens that they may spell out, and `length` is in characters."""

    def __init__(self, chance: random.Random, special: Sequence[str], length: int) -> None:
        """Choose by `chance`."""
        self._random = chance
        self._special = special
        self._length = length

    def text(self) -> str:
        """Return a text of any kind, short or long, or none."""
        kinds: list[Callable[[int], str]] = [
            *(self.prose, self.prose, self.prose, self._code, self._script, self._script, self._emoji),
            *(self._numbers, self._spaces, self._anything, self._repeated, self._spelled, self._mixed, self._mixed),
        ]
        if self._random.random() < 0.06:
            return self._random.choice(("", " ", "\n", "\n\n", "\t "))
        length = max(1, int(self._length * self._random.random() ** 3))
        text = self._random.choice(kinds)(length)
        edges = ("", "", "", "", "", " ", "\n", "\n\n", "  ")
        return self._random.choice(edges) + text + self._random.choice(edges)

    def prose(self, length: int) -> str:
        """Return words in many languages."""
        text = ""
        while len(text) < length:
            text += self._random.choice(WORDS) + self._random.choice(MARKS)
        return text.strip() if self._random.random() < 0.8 else text

    def _code(self, length: int) -> str:
        text = ""
        while len(text) < length:
            text += self._random.choice(CODE)
        return text

    def _script(self, length: int) -> str:
        first, last = self._random.choice(SCRIPTS)
        return "".join(chr(self._random.randint(first, last)) for _ in range(length // 2))

    def _emoji(self, length: int) -> str:
        return "".join(self._random.choice((*EMOJI, " ", "ok ")) for _ in range(length // 3))

    def _numbers(self, length: int) -> str:
        text = ""
        while len(text) < length:
            text += str(self._random.randint(0, 10 ** self._random.randint(1, 12))) + self._random.choice(
                (" ", ".", ",", "", "-", ":")
            )
        return text

    def _spaces(self, length: int) -> str:
        text = ""
        while len(text) < length:
            text += self._random.choice(" \n\t\r") * self._random.randint(1, 40) + self._random.choice(
                ("", "x", "if", "1")
            )
        return text

    def _anything(self, length: int) -> str:
        chosen = (self._random.choice(ANYTHING) for _ in range(length // 2))
        text = "".join(chr(self._random.randint(first, last)) for first, last in chosen)
        return text + self._random.choice(("", "", "\ud800", "\udfff!"))

    def _repeated(self, length: int) -> str:
        return self._random.choice(("a", "=", "-", "ab", "0", "\n", "é", "好", "👍", "</b>", "!?")) * length

    def _spelled(self, length: int) -> str:
        pieces = (*self._special, "<|endoftext|>", "[INST]", "</s>", "<|", "|>")
        return "".join(self._random.choice((*pieces, " and ")) for _ in range(1 + length // 20))

    def _mixed(self, length: int) -> str:
        kinds = (self.prose, self._code, self._script, self._emoji, self._numbers, self._spaces, self._anything)
        return self._random.choice(("", " ", "\n")).join(self._random.choice(kinds)(length // 4 + 1) for _ in range(4))
