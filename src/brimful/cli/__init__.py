"""The command line. One file a group of commands; each has a `register` that adds them to the app.

    app → count | budget | fill | explain | compare | models | policies | embeddings → options, packages
        | imports | rooms | messages | memories | personas | assemble | index | db → opened, progress, lines
        → source (what comes in) | output, table, terminal (what goes out) → failure

A command reads its input (source, packages), calls the library, and shows the result (output): it decides nothing.
"""

from brimful.cli.app import main

__all__ = ["main"]
