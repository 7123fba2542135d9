"""How the values of options and arguments are read.

Typer has every value checked by pydantic, even where none was given, and pydantic takes longer to load than most
commands take to run. A text that was given for a text, and a default that stands in our own code, need no check. All
else is read by typer, as ever.
"""

from typing import Any

from typer.core import TyperArgument, TyperOption


class PlainOption(TyperOption):
    """An option whose value is checked only where something can be wrong with it."""

    def process_value(self, ctx: Any, value: Any) -> Any:
        """Return the value as the command gets it."""
        return _taken(self, ctx, value) if _is_plain(self, value) else super().process_value(ctx, value)


class PlainArgument(TyperArgument):
    """An argument whose value is checked only where something can be wrong with it."""

    def process_value(self, ctx: Any, value: Any) -> Any:
        """Return the value as the command gets it."""
        return _taken(self, ctx, value) if _is_plain(self, value) else super().process_value(ctx, value)


def read_plainly(command: Any) -> None:
    """Let a command read its values so. Typer makes its parameters, `--help` too, and takes no class for them."""
    given = command.get_params
    command.get_params = lambda ctx: [_plain(each) for each in given(ctx)]


def _plain(each: Any) -> Any:
    each.__class__ = PlainArgument if isinstance(each, TyperArgument) else PlainOption
    return each


def _is_plain(each: TyperArgument | TyperOption, value: Any) -> bool:
    if value is None:
        return not each.required
    wanted = each.type_descriptor
    if wanted.parameter_info.parser is not None:
        return False
    return value == each.default or wanted.annotation in (str, list[str])


def _taken(each: TyperArgument | TyperOption, ctx: Any, value: Any) -> Any:
    return value if each.callback is None else each.callback(ctx, each, value)
