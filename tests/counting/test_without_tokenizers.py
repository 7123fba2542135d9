"""Without splintr-rs, everything works that counts no tokens with it, and the rest says what to do."""

import subprocess
import sys

SCRIPT = """
import asyncio, importlib, pkgutil, sys


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "splintr":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Missing())

import brimful
from brimful.engine import Engine

for module in pkgutil.walk_packages(brimful.__path__, "brimful."):
    if ".adapters." not in module.name and not module.name.endswith("__main__"):  # frameworks, and a program
        importlib.import_module(module.name)

try:
    brimful.count("Hello", model="gpt-4o")
except brimful.errors.CountingError as error:
    print(error)
print(brimful.count("Hello world", model="gpt-4o", method="approximate").tokens)


async def chat():
    policy = brimful.load_policy("default", overrides={"counting": "approximate"})
    async with Engine("sqlite:///:memory:", model="gpt-4o", policy=policy) as engine:
        await engine.post(room="den", text="The kettle is green.", id="m1")
        await engine.remember("Ada drinks tea.", user="ada")
        (hit,) = await engine.search("What colour is the kettle?", room="den")
        context = await engine.assemble(room="den", message="What colour is the kettle?", user="ada")
        return hit.record.id, "m1" in context.kept


print(asyncio.run(chat()))
"""


def test_estimates_work_without_tokenizers():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    problem, tokens, chatted = done.stdout.splitlines()
    assert problem.startswith("the built-in tokenizers are not installed: install splintr-rs, set `tokenizer` to a")
    assert (tokens, chatted) == ("3", "('m1', True)")
