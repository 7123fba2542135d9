"""How a command fails: one line on standard error, and an exit code that says what sort of failure it was."""

from typing import Final

OPERATION: Final = 1  # a BrimfulError, or a file that cannot be read or written; 2 is wrong usage
BROKEN_PIPE: Final = 141  # 128 + SIGPIPE: what a shell reports of a program whose reader left
INTERRUPTED: Final = 130  # 128 + SIGINT: Ctrl-C


class Failure(Exception):
    """Something outside of Brimful went wrong, such as a missing file. The message is the line that the user reads."""
