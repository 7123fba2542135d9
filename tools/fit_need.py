"""Fit the probability that a message refers to an earlier turn: the numbers of `[pools.need]` in `default.toml`.

python tools/fit_need.py FOLDER

FOLDER holds `DP/dev.json` and `DP/test.json` of https://github.com/HIT-SCIR/Molweni (Apache-2.0): chats in which people
marked which utterance each one replies to, comments on, or continues. A logistic regression has the logarithm of the
distance in turns, whether both have the same speaker, and whether they share a rare word. Turns that have fewer than
seven others before them are left out.

Fitted to 1,000 chats: newest 0.74, decay 2.7, own 0.05, mentioned 2.1.
"""

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

FILES = ("DP/dev.json", "DP/test.json")
MIN_BEFORE = 7  # turns
RARE = 0.01  # of all turns may have a word that counts as rare
ROUNDS = 30  # of Newton's method


def main(folder: Path) -> None:
    """Print the numbers, and predictions beside what was observed, by distance."""
    chats = [chat for name in FILES for chat in json.loads((folder / name).read_text(encoding="utf-8"))]
    common = _common_words(chats)
    rows = np.array([row for chat in chats for row in _rows(chat, common)])
    inputs, links = rows[:, :-1], rows[:, -1]
    weights = _fit(inputs, links)
    constant, distance, own, mentioned = weights.tolist()
    sys.stdout.write(f"newest = {1 / (1 + math.exp(-constant)):.2f}, decay = {-distance:.1f}\n")
    sys.stdout.write(f"own = {math.exp(own):.2f}, mentioned = {math.exp(mentioned):.1f}\n")
    predicted = 1 / (1 + np.exp(-inputs @ weights))
    for turns in (1, 2, 3, 4, 5, 7, 10):
        at = np.isclose(inputs[:, 1], math.log(turns))
        sys.stdout.write(
            f"{turns:>2} turns back: predicted {predicted[at].mean():.3f}, observed {links[at].mean():.3f}\n"
        )


def _rows(chat: dict[str, Any], common: set[str]) -> Iterator[tuple[float, ...]]:
    """Yield a row for each pair of turns: the inputs, and whether the later one refers to the earlier one."""
    turns = chat["edus"]
    links = {(min(each["x"], each["y"]), max(each["x"], each["y"])) for each in chat["relations"]}
    words = [_words(turn) - common for turn in turns]
    for later in range(MIN_BEFORE, len(turns)):
        for earlier in range(later):
            own = turns[earlier]["speaker"] == turns[later]["speaker"]
            shared = bool(words[earlier] & words[later])
            yield 1.0, math.log(later - earlier), float(own), float(shared), float((earlier, later) in links)


def _common_words(chats: list[dict[str, Any]]) -> set[str]:
    turns = [turn for chat in chats for turn in chat["edus"]]
    often = Counter(word for turn in turns for word in _words(turn))
    return {word for word, count in often.items() if count >= RARE * len(turns)}


def _words(turn: dict[str, Any]) -> set[str]:
    return set(re.findall(r"\w+", turn["text"].lower()))


def _fit(inputs: Any, links: Any) -> Any:
    weights = np.zeros(inputs.shape[1])
    for _ in range(ROUNDS):
        predicted = 1 / (1 + np.exp(-inputs @ weights))
        curvature = (inputs * (predicted * (1 - predicted))[:, None]).T @ inputs
        weights += np.linalg.solve(curvature, inputs.T @ (links - predicted))
    return weights


if __name__ == "__main__":
    main(Path(sys.argv[1]))
