"""Values of options and arguments: validation is skipped only where it is not needed."""

from typing import Annotated, Literal

import pytest
import typer

from brimful.cli.app import LazyCommands, PlainArgument, PlainOption, app, prepare


def every_command(commands):
    for command in commands.values():
        yield command
        yield from every_command(getattr(command, "commands", {}))


def test_every_parameter_of_every_command_is_read_plainly():
    for command in (typer.main.get_command(app), *every_command(LazyCommands())):
        params = command.get_params(typer.Context(command, help_option_names=["-h", "--help"]))  # it is kept
        assert {type(each) for each in params} <= {PlainArgument, PlainOption}
        assert "help" in {each.name for each in params}


def test_commands_that_create_are_called_add_and_commands_that_delete_remove():
    groups = {name: set(command.commands) for name, command in LazyCommands().items() if hasattr(command, "commands")}
    others = {"create", "delete", "drop", "insert", "make", "new", "put", "register", "revoke", "rm", "unset"}
    assert not set().union(*groups.values()) & others
    assert {name for name, verbs in groups.items() if "remove" in verbs} == {
        *(name for name, verbs in groups.items() if "add" in verbs),
        "context",  # is assembled
        "limits",  # are set
    }


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("budget", "--window", "wide"), "--window"),
        (("budget", "--window", "0"), "--window"),
        (("budget", "--window", ""), "--window"),
        (("count", "x", "--method", "guess"), "--method"),
        (("count", "x", "--method", ""), "--method"),
        (("inspect", "--message", "x"), "--room"),
        (("message", "add", "--room", "den"), "TEXT"),
        (("import",), "PATH"),
        (("memory", "list", "--type", "tacit"), "--type"),
        (("inspect", "--room", "den", "--now", "noon"), "--now"),
    ],
)
def test_wrong_or_missing_parameters_are_refused(args, said, run):
    assert said in run(*args, code=2).stderr


def take(
    text: str | None = typer.Option(None, envvar="TEXT"),
    texts: Annotated[list[str] | None, typer.Option()] = None,
    kind: Literal["tea", "milk"] = typer.Option("tea"),
    count: int = typer.Option(3, min=1),
    loud: Annotated[str, typer.Option(parser=str.upper)] = "a",
) -> None:
    """Say what came in."""
    typer.echo(f"{text=} {texts=} {kind=} {count=} {loud=}")


@pytest.mark.parametrize(
    ("args", "environ", "told"),
    [
        ([], {}, "text=None texts=None kind='tea' count=3 loud='A'"),
        (["--text", "", "--kind", "milk"], {}, "text='' texts=None kind='milk' count=3 loud='A'"),
        (["--texts", "b", "--texts", "", "--count", "7"], {}, "text=None texts=['b', ''] kind='tea' count=7 loud='A'"),
        (["--count", "3", "--loud", "b"], {"TEXT": "ä"}, "text='ä' texts=None kind='tea' count=3 loud='B'"),
    ],
)
def test_a_command_gets_what_typer_would_give_it(args, environ, told, monkeypatch, capsys):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    holder = typer.Typer(add_completion=False)
    holder.command()(take)
    own, plain = typer.main.get_command(holder), typer.main.get_command(holder)
    prepare(plain)
    for command in (own, plain):
        command.main(args, standalone_mode=False)
        assert capsys.readouterr().out == f"{told}\n"
