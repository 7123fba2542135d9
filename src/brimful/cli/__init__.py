"""The command line.

    app → one module per command or group → records, options, store, files → output

A command reads its input, calls the library, and prints the result. Each module has a function `register` that adds
its commands to the app; `app.COMMANDS` names the module of each command.
"""

import gc
from typing import Final

GC_THRESHOLD: Final = 50_000  # new objects between two collections: a command frees little before it ends


def main() -> None:
    """Run the command line."""
    gc.set_threshold(GC_THRESHOLD)
    from brimful.cli.app import main as run  # noqa: PLC0415 - with fewer collections, it is imported faster

    run()


__all__ = ["main"]
