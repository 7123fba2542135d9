"""A support bot for several shops in one PostgreSQL database. Each shop is a tenant, and sees nothing of the others.

    pip install "brimful[postgres,remote]"
    python examples/support_bot.py postgresql://me@localhost/support harbour ada "Do you ship to Porto?"

With `--model`, a real model answers, such as gpt-4o-mini (needs OPENAI_API_KEY). Without it, you see what the model
would have been sent. SQLite works as well: sqlite:///support.db.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import brimful
from brimful.protocols import Provider
from brimful.records import Persona, Room
from brimful.stores import connect

FACTS = {
    "harbour": ("Harbour Coffee ships to all of Portugal, in two days.", "Harbour Coffee is closed on Mondays."),
    "summit": ("Summit Tea does not ship. Customers collect their orders.", "Summit Tea is open every day."),
}


@asynccontextmanager
async def open_shops(url: str, provider: str | Provider = "") -> AsyncIterator[dict[str, brimful.Engine]]:
    """Yield an engine for each shop. They share the connections to one database."""
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(connect(url))
        shops = {name: brimful.Engine(database, tenant=name, provider=provider) for name in FACTS}
        for name, engine in shops.items():
            await stack.enter_async_context(engine)
            await engine.put(Persona(id="nova", name="Nova", prompt=f"You are Nova, the assistant of {name}."))
            for number, fact in enumerate(FACTS[name]):  # the id makes it safe to write a fact again
                await engine.remember(fact, id=f"fact-{number}")
        yield shops


async def ask(engine: brimful.Engine, customer: str, question: str, *, model: str = "") -> str:
    """Return the answer of a model, or the request for it."""
    room = Room(id=f"chat-{customer}", user=customer, persona="nova")
    await engine.put(room)
    await engine.wait_indexed()
    if model:
        return (await engine.respond(room.id, question, sender=customer, model=model)).text
    context = await engine.assemble(room=room.id, message=question, sender=customer, model="gpt-4o-mini")
    return "\n".join(f"{each['role']}: {each['content']}" for each in context.request["messages"])


async def run(options: argparse.Namespace) -> None:
    """Answer one question."""
    async with open_shops(options.url) as shops:
        answer = await ask(shops[options.shop], options.customer, options.question, model=options.model)
        sys.stdout.write(f"{answer}\n")


def main() -> None:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the store")
    parser.add_argument("shop", choices=sorted(FACTS))
    parser.add_argument("customer")
    parser.add_argument("question")
    parser.add_argument("--model", default="")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
