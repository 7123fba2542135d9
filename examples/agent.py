"""An agent with tools that runs far past its window: the task stays, and the model recalls what was left out.

The model is scripted, but it knows only what its requests show: it reads ids and amounts from them, recalls what is
missing, and repeats a call that the request does not mention. Needs no API key and no network. Run it with
`python examples/agent.py`.
"""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from service import ScriptedModel, scripted_model, service

import brimful

Message = dict[str, Any]
Request = dict[str, Any]

MODEL = "gpt-4o"
WINDOW = 4_000  # tokens; the whole run has more than ten times as many
COMPLETION = 300
MAX_REQUESTS = 100
LINE = 100  # characters of a line on the screen
CUSTOMER = "mia_li_3668"
TASK = (
    f"I am {CUSTOMER}. Some of my orders arrived broken. Please go through all of them, refund each broken one to my "
    "gift card, not to the credit card, and tell me the total."
)
SYSTEM = "You are the assistant of Harbour Coffee. Look at every order before you refund anything."
ORDERS = [f"W{1_000_000 + 7_919 * number}" for number in range(1, 41)]
BROKEN = {ORDERS[number]: 18.5 + number for number in (2, 9, 13, 20, 36)}
CARD = "gift_card_7261043"
PLACES = ("Lisbon", "Porto", "Braga", "Faro", "Évora", "Coimbra")


# -- the shop --------------------------------------------------------------------------------------------------------


def tool(name: str, description: str, *arguments: str) -> dict[str, Any]:
    """Describe a tool whose arguments are strings."""
    schema = {"type": "object", "properties": {each: {"type": "string"} for each in arguments}}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = [
    tool("get_customer", "Return a customer's orders and payment methods.", "customer"),
    tool("get_order", "Return an order: its condition, its price and its journey.", "order"),
    tool("refund", "Refund an order.", "order", "payment", "amount"),
]


def call_tool(name: str, arguments: dict[str, str]) -> str:
    """Answer a call as the shop would."""
    order = arguments.get("order", "")
    match name:
        case "get_customer":
            cards = [{"id": "credit_card_5530", "kind": "credit"}, {"id": CARD, "kind": "gift"}]
            return json.dumps({"customer": CUSTOMER, "cards": cards, "number_of_orders": len(ORDERS), "orders": ORDERS})
        case "get_order":
            journey = [{"day": day, "place": PLACES[day % 6], "scan": f"{order}-{day * 7_907}"} for day in range(1, 20)]
            condition, price = ("broken", BROKEN[order]) if order in BROKEN else ("fine", 12.0 + ORDERS.index(order))
            return json.dumps({"order": order, "condition": condition, "price": price, "journey": journey})
        case _:
            return json.dumps({"refunded": arguments["amount"], "order": order, "to": arguments["payment"]})


# -- the model -------------------------------------------------------------------------------------------------------


def next_message(request: Request) -> Message:
    """Return what the scripted model does next, by nothing but the request."""
    text = visible_text(request["messages"])
    orders, seen, refunds = set(re.findall(r"W\d{7}\b", text)), calls_in(text, "get_order"), calls_in(text, "refund")
    newest = newest_order(request["messages"])
    if "get_customer(" not in text:
        return calling("get_customer", customer=CUSTOMER)
    if newest.get("condition") == "broken" and newest["order"] not in refunds:
        card = re.search(r"gift_card_\d+", text)
        if card is None:
            return calling("recall", query="gift card of the customer")
        return calling("refund", order=newest["order"], payment=card[0], amount=str(newest["price"]))
    if left := sorted(orders - seen.keys()):
        return calling("get_order", order=left[0])
    if len(orders) < len(ORDERS):
        return calling("recall", query="orders of the customer")
    total = sum(float(amount) for amount in refunds.values())
    return {
        "role": "assistant",
        "content": f"I refunded {len(refunds)} orders to your gift card: {total:.2f} in total.",
    }


def visible_text(messages: list[Message]) -> str:
    """Return everything that the model can read."""
    lines = []
    for message in messages:
        lines.append(message.get("content") or "")
        for call in message.get("tool_calls") or ():
            arguments = json.loads(call["function"]["arguments"])
            lines.append(f"{call['function']['name']}({', '.join(f'{key}={arguments[key]}' for key in arguments)})")
    return "\n".join(lines)


def calls_in(text: str, name: str) -> dict[str, str]:
    """Return the orders for which a tool was called, with the amount if there is one."""
    found = re.findall(rf"{name} ?\(order=(W\d+)(?:.*?amount=([\d.]+\d))?", text)
    return {order: amount or "0" for order, amount in found}


def newest_order(messages: list[Message]) -> dict[str, Any]:
    """Return the order that was looked at last."""
    for message in reversed(messages):
        if message["role"] == "tool" and message["content"].startswith('{"order"'):
            found: dict[str, Any] = json.loads(message["content"])
            return found
    return {}


def calling(name: str, **arguments: str) -> Message:
    """Return a message that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": "-".join([name, *arguments.values()]).replace(" ", "-"), "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


# -- the agent -------------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """What happened in a run: the conversation, how often each call was made, and the contexts if there were any."""

    messages: list[Message]
    calls: Counter[str] = field(default_factory=Counter)
    contexts: list[brimful.Context] = field(default_factory=list)
    recalls: list[tuple[str, str]] = field(default_factory=list)

    @property
    def repeated(self) -> int:
        """How many calls were made again."""
        return self.calls.total() - len(self.calls)

    @property
    def answer(self) -> str:
        """The final answer."""
        return self.messages[-1]["content"] if self.messages[-1]["role"] == "assistant" else "no answer"


def run_agent(**options: Any) -> Run:
    """Run the agent with `brimful.fit` before the model."""
    run = Run([{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}])

    def send(request: Request) -> Message:
        previous = run.contexts[-1] if run.contexts else None
        run.contexts.append(brimful.fit(request, window=WINDOW, previous=previous, now=0, **options))
        return next_message(run.contexts[-1].request)

    work(run, send)
    return run


def run_through_proxy() -> Run:
    """Run the same agent without Brimful: its client talks to `brimful serve`, which answers recalls by itself."""
    run = Run([{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}])
    with proxy() as client:

        def send(request: Request) -> Message:
            answer = client.post("/v1/chat/completions", json=request, headers={"X-Brimful-Recall": "tool"})
            message: Message = answer.raise_for_status().json()["choices"][0]["message"]
            return message

        work(run, send)
    return run


def work(run: Run, send: Callable[[Request], Message]) -> None:
    """Send requests and call tools until the model answers: the loop of any agent."""
    for _ in range(MAX_REQUESTS):
        answer = send({"model": MODEL, "messages": run.messages, "tools": TOOLS, "max_tokens": COMPLETION})
        run.messages.append(answer)
        if not answer.get("tool_calls"):
            return
        for call in answer["tool_calls"]:
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            if name == "recall":
                result = brimful.recall_tool(run.contexts[-1])(arguments)
                run.recalls.append((arguments, result))
            else:
                result = call_tool(name, json.loads(arguments))
                run.calls[f"{name} {arguments}"] += 1
            run.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


class ServedModel(ScriptedModel):
    """The scripted model as a server."""

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the next call, or the final answer."""
        return next_message(request)


@contextmanager
def proxy() -> Iterator[Any]:
    """Serve the model, run `brimful serve` before it, and yield a client of that."""
    with tempfile.TemporaryDirectory() as folder, scripted_model(ServedModel) as upstream:
        db, limits = f"sqlite:///{Path(folder) / 'agent.db'}", ("--window", str(WINDOW), "--like", MODEL)
        with service(upstream, db, *limits) as client:
            yield client


# -- what happened ---------------------------------------------------------------------------------------------------


def total_tokens(context: brimful.Context) -> int:
    """Return the tokens of the whole conversation, sent or not."""
    return sum(package.tokens.tokens for package in context.inputs.packages)


def show_requests(console: Console, run: Run) -> None:
    """Print some of the requests: what the conversation has, what was sent, and what the model did with it."""
    table = Table("request", "conversation", "sent", "same as before", "what the model did", title_justify="left")
    answers = [message for message in run.messages if message["role"] == "assistant"]
    for at, (context, answer) in enumerate(zip(run.contexts, answers, strict=True)):
        call = next(iter(answer.get("tool_calls") or ()), None)
        if at % 6 == 0 or call is None or call["function"]["name"] == "recall":
            shared = f"{brimful.diff(run.contexts[at - 1], context).prefix_share:.0%}" if at else ""
            action = visible_text([answer]).strip()
            table.add_row(f"{at + 1}", f"{total_tokens(context):,}", f"{context.tokens:,}", shared, action)
    console.print(table)


def show_request(console: Console, context: brimful.Context) -> None:
    """Print the messages of a request, each on one line, and the ledger in full."""
    for message in context.request["messages"]:
        text = visible_text([message]).strip()
        is_ledger = message["role"] == "user" and text.startswith("<history")
        lines = text.splitlines() if is_ledger else [text]
        for number, line in enumerate(lines):
            shown = line if len(line) < LINE else f"{line[:LINE]} …"
            console.print(f"  {'' if number else message['role']:<10} {shown}", markup=False)


def main() -> None:
    """Run the agent, and show what it saw."""
    console = Console(width=120, highlight=False)
    run = run_agent(overrides={"recall": "tool"})
    last = run.contexts[-1]
    console.print(f"[bold]{TASK}[/]\n")
    console.print(
        f"{len(run.contexts)} requests in a window of {WINDOW:,} tokens. The conversation has {total_tokens(last):,}."
    )
    show_requests(console, run)
    console.print("\n[bold]The last request.[/] Older steps are lines of a ledger, each with the handle of its result:")
    show_request(console, last)
    for arguments, result in run.recalls[:1]:
        console.print("\n[bold]A recall.[/] The model asked for what it could not see any more:")
        console.print(f"  recall({arguments}) → {' '.join(result.split())[:LINE]} …", markup=False)
    console.print("\n[bold]What stayed, and why?[/]")
    for id in ("msg-000001", "msg-000003", "msg-000009", f"msg-{last.positions[-1]:06d}"):
        console.print(f"  {id}  {last.explain(id)}", markup=False, soft_wrap=True)
    console.print("\n[bold]The same agent and the same model[/]")
    show_outcome(console, "with brimful.fit", run)
    show_outcome(console, "with a client that knows nothing of Brimful, through brimful serve", run_through_proxy())
    show_outcome(console, "with only the newest messages (policy fit)", run_agent(policy="fit"))


def show_outcome(console: Console, name: str, run: Run) -> None:
    """Print how a run ended."""
    line = f"  {name}: {run.calls.total()} calls, {run.repeated} of them repeated: {run.answer}"
    console.print(line, markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
