"""A chat room with two people and three personas: whoever is mentioned answers, and knows only what it may know.

    python examples/room.py                    # with scripted answers
    python examples/room.py --model gpt-4o     # needs `brimful[remote]` and OPENAI_API_KEY

It is what a bot for Discord or Slack does: post every message that it sees, and call `respond` for those that mention
somebody.
"""

import argparse
import asyncio
import sys

import brimful
from brimful.protocols import Provider
from brimful.records import Persona, Room
from brimful.testing import ScriptedProvider

PERSONAS = (
    Persona(id="cook", name="Cook", prompt="You are the cook. You plan dinner. Answer in one sentence."),
    Persona(id="host", name="Host", prompt="You are the host. You welcome guests. Answer in one sentence."),
    Persona(id="critic", name="Critic", prompt="You are the critic. You are hard to please. Answer in one sentence."),
)
MESSAGES = (
    ("Ada", "I bring leeks from the garden on Saturday."),
    ("Bob", "And I bring my sister. She eats no meat."),
    ("Ada", "@cook what will there be on Saturday?"),
    ("Bob", "@host @critic how does that sound?"),
)
SCRIPT = ("Leek tart, without meat for Bob's sister.", "It sounds like a lovely evening.", "I have had worse tarts.")


async def run(store: str, model: str, provider: str | Provider) -> None:
    """Play the conversation, and print it."""
    async with brimful.Engine(store, model=model, provider=provider) as engine:
        for persona in PERSONAS:
            await engine.put(persona)
        await engine.put(Room(id="kitchen", name="The kitchen"))
        await engine.remember("The cook's oven heats unevenly.", persona="cook")  # only the cook knows
        for sender, text in MESSAGES:
            sys.stdout.write(f"{sender}: {text}\n")
            if "@" not in text:
                await engine.post(room="kitchen", sender=sender, text=text)
                continue
            answer = await engine.respond("kitchen", text, sender=sender)
            for each in (answer, *answer.others):
                name = each.message.sender if each.message else "nobody"  # an empty answer is not posted
                sys.stdout.write(f"{name}: {each.text}\n")


def main() -> None:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a model that answers; scripted answers if none is given")
    options = parser.parse_args()
    provider = "" if options.model else ScriptedProvider(SCRIPT)  # the model's own API
    asyncio.run(run("sqlite://", options.model or "gpt-4o", provider))


if __name__ == "__main__":
    main()
