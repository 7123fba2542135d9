"""`brimful recall`: show what a context shortened or left out."""

from typing import Annotated, Final

import typer

from brimful.assembly.assemble import recall as recall_item
from brimful.cli import output
from brimful.cli.explain import ContextName, locate, warn_if_ambiguous
from brimful.cli.options import Json, StoreOptions, TokenizerName
from brimful.cli.store import with_engine

EXAMPLES: Final = """\
Examples:
  brimful recall context.json msg-000012
  brimful recall ctx-81c2f4d19a05b7e36c1f88aa hythy3be --max-tokens 4000
  brimful recall context.json --query "price of the ladder"
  brimful recall context.json msg-000012 --query timeout --json | jq -r .text"""


def register(app: typer.Typer) -> None:
    app.command("recall", epilog=EXAMPLES)(recall)


def recall(
    *,
    context: ContextName,
    handle: Annotated[str, typer.Argument(metavar="HANDLE", help="The handle or the id of an item.")] = "",
    query: Annotated[
        str, typer.Option("--query", "-q", metavar="TEXT", help="What to look for, in the item or everywhere.")
    ] = "",
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", metavar="N", min=1, help="Maximum tokens of the result.")
    ] = 1_000,
    tokenizer: TokenizerName = None,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Show what a context shortened or left out.

    An item is shown whole if it has at most --max-tokens, and otherwise the
    parts that match the query. Without a HANDLE, the best passages of all
    that was left out are shown with their handles. For a context in the
    store, messages and memories that were not candidates are found, too.
    """
    found = locate(context, target=target)
    warn_if_ambiguous(found, context)
    result = (
        with_engine(
            lambda engine: engine.recall(handle, query=query, max_tokens=max_tokens, context=found.context.id),
            target=target,
            indexing=False,
        )
        if found.stored
        else recall_item(found.context, handle, query=query, max_tokens=max_tokens, tokenizer=tokenizer)
    )
    if as_json:
        output.show_json(result)
        return
    output.write(output.printable(result.text) if result.text else "nothing matches" if not handle else "nothing fits")
    if handle and not result.whole:
        output.warn(f"{result.tokens:,} of {result.size:,} tokens; use --max-tokens {result.size} to see all")
