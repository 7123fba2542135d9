"""Conversations with models whose tokenizer is hidden: another model's counter only reports usage."""

import json
import random

from brimful import Text, ToolCall, ToolResult, counter
from brimful.core.prompt import Message, Prompt, Tool
from brimful.counting import counter_for, learn_calibration
from brimful.counting.counters import measure_prompt
from brimful.models.registry import unknown_model
from brimful.records.usage import UsageReport

HIDDEN = unknown_model("nobody-knows-me")
ROUTE = "openai:example.org"

SENTENCES = {
    "english": (
        "The harbour master closes the gate when the wind turns north.",
        "Could you look up why the second invoice was never paid?",
        "She keeps three lists: what is done, what is due, and what nobody wants to do.",
        "I'd rather walk; it's only twenty minutes, and the rain has stopped.",
        "Nothing in the report explains the difference between the two columns.",
    ),
    "code": (
        "def total(rows):\n    return sum(row.amount for row in rows if row.paid)\n",
        "for index, name in enumerate(sorted(names)):\n    print(f'{index:>3} {name}')\n",
        "if (response.status !== 200) {\n  throw new Error(`HTTP ${response.status}`);\n}\n",
        "SELECT id, max(at) FROM visits WHERE tenant = 7 GROUP BY id;\n",
    ),
    "chinese": (
        "请把昨天的会议记录整理成三点，发给所有人。",
        "这个接口在高峰期经常超时，我们需要加缓存。",
        "他说下周三之前一定能修好，但没有说怎么修。",
    ),
    "japanese": (
        "資料は金曜日までに共有フォルダーへ入れてください。",
        "その設定を変えると、再起動するまで反映されません。",
    ),
    "russian": ("Проверьте, пожалуйста, почему не пришло письмо.", "Новый сервер запустим в понедельник утром."),
    "emoji": ("Done 🎉🎉 see you at 18:30 🍕", "no way 😂😂😂 that was at 7am?!", "ok 👍🏽 → next: 🚀"),
}


def truth(name):
    """Return the counter that a server would bill by."""
    return counter(name)


class Conversation:
    """A conversation that grows, with an own mix of languages; some have tools."""

    def __init__(self, seed, languages, *, tools=False):
        self._random = random.Random(seed)
        self._languages = languages
        self._tools = (_tool("get_order"), _tool("search")) if tools else ()
        self._messages = [_text_message("system", "You help the crew of a small harbour with whatever they ask.")]

    def ask(self):
        """Return the prompt of the next turn."""
        self._messages.append(_text_message("user", self._text()))
        prompt = Prompt(model="m", messages=tuple(self._messages[-60:]), tools=self._tools)
        if self._tools and self._random.random() < 0.5:
            self._messages += self._called()
        self._messages.append(_text_message("assistant", self._text()))
        return prompt

    def _text(self):
        words = [self._random.choice(SENTENCES[self._random.choice(self._languages)]) for _ in range(self._sentences())]
        return " ".join(
            f"{word} {self._random.randint(1, 9999)}" if self._random.random() < 0.2 else word for word in words
        )

    def _sentences(self):
        return self._random.randint(1, 12)

    def _called(self):
        id = f"call{self._random.randint(10000, 99999)}"
        order = {"order_id": self._random.randint(1, 10**6), "verbose": True}
        row = {"id": f"#W{self._random.randint(1, 10**7)}", "amount": 12.5, "note": self._text()[:200]}
        yield Message(role="assistant", parts=(ToolCall(id=id, name="get_order", arguments=json.dumps(order)),))
        yield Message(role="tool", parts=(ToolResult(id=id, content=json.dumps(row, ensure_ascii=False)),))


def online(prompts, server, model=HIDDEN):
    """Count each prompt by what was learned before it, and learn from what the server bills; newest first."""
    seen = []
    for at, prompt in enumerate(prompts):
        seen.insert(0, observed(prompt, server(prompt), learn_calibration(model, seen, route=ROUTE).model, at))
    return seen


def observed(prompt, reported, model, at):
    """Return what is observed of a prompt that a server bills at so much."""
    count = counter_for(model).prompt(prompt)
    return UsageReport(
        id=f"o{at}",
        model="m",
        route=ROUTE,
        at=float(at),
        counted=count.tokens,
        margin=count.margin,
        basis=count.basis,
        tokenizer="o200k_base",
        features={name: value for name, value in measure_prompt(model, "hybrid", prompt).items() if value},
        reported=reported,
    )


def mixed(seed, requests):
    """Return prompts of several conversations in turns."""
    source = random.Random(seed)
    rooms = [
        Conversation(f"{seed}/1", ["english"]),
        Conversation(f"{seed}/2", ["english", "code"], tools=True),
        Conversation(f"{seed}/3", ["chinese", "japanese", "english"]),
        Conversation(f"{seed}/4", ["english", "emoji", "russian"]),
    ]
    return [source.choice(rooms).ask() for _ in range(requests)]


def _text_message(role, text):
    return Message(role=role, parts=(Text(text=text),))


def _tool(name):
    fields = {
        "order_id": {"type": "integer", "description": "The number of the order."},
        "verbose": {"type": "boolean"},
    }
    return Tool(name=name, description="Find it, and say so.", parameters={"type": "object", "properties": fields})
