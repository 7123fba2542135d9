"""The command line.

    app → one module per command or group → records, options, store, files → output

A command reads its input, calls the library, and prints the result. Each module has a function `register` that adds
its commands to the app; `app.COMMANDS` names the module of each command.
"""

import gc
import sys
from typing import Final

GC_THRESHOLD: Final = 50_000  # new objects between two collections: a command frees little before it ends


def main() -> None:
    """Run the command line."""
    if sys.argv[1:3] == ["hook", "--program"] and _is_small_result():
        return
    gc.set_threshold(GC_THRESHOLD)
    from brimful.cli.app import main as run  # noqa: PLC0415 - with fewer collections, it is imported faster

    run()


def _is_small_result() -> bool:
    """Return whether a hook was started for a small result of a tool, as most are: it ends before anything is imported.

    Otherwise the event can be read from standard input again.
    """
    import io  # noqa: PLC0415 - other commands do not need them
    import os  # noqa: PLC0415

    from brimful.plugins.small_results import LIMIT_VARIABLE, is_small_result  # noqa: PLC0415

    if sys.stdin is None or sys.stdin.isatty():
        return False
    event = sys.stdin.buffer.read()
    sys.stdin = io.TextIOWrapper(io.BytesIO(event))
    return is_small_result(event, os.environ.get(LIMIT_VARIABLE, ""))


__all__ = ["main"]
