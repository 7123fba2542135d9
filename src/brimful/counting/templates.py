"""Chat templates of open models: rendered as the reference servers render them, and always the same.

Only the date is ours: it is an argument, never the clock.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final

from brimful.errors import CountingError, InvalidModel

DEFAULT_DATE: Final = date(2024, 7, 26)
"""The date that templates print. Any other has as many tokens; Llama 3.1's own template falls back to this one."""

_FOLDER: Final = Path(__file__).with_name("templates")

WireMessage = dict[str, Any]


class TemplateRefused(CountingError):
    """A chat template does not take these messages: a role, an order or a tool call that it has no form for."""


class ChatTemplate:
    r"""A chat template that can be rendered.

    >>> chatml = ChatTemplate.named("chatml")
    >>> chatml.render([{"role": "user", "content": "hi"}])
    '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n'
    """

    def __init__(self, source: str, *, bos: str = "", eos: str = "", today: date = DEFAULT_DATE) -> None:
        """Compile the source; `bos` and `eos` are the tokens that begin and end a text."""
        from brimful.counting.sandbox import compile_template  # noqa: PLC0415 - jinja2 loads for those who need it

        self._render = compile_template(source, today)
        self._bos = bos
        self._eos = eos

    @classmethod
    def named(cls, name: str, *, bos: str = "", eos: str = "", today: date = DEFAULT_DATE) -> "ChatTemplate":
        """Return the template of that name, or the one in the file of that path."""
        return cls(_source(name), bos=bos, eos=eos, today=today)

    def render(
        self,
        messages: Sequence[WireMessage],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        answer: bool = True,
    ) -> str:
        """Return the text that the model reads; with `answer`, it ends where the model's answer begins."""
        try:
            return self._render(
                messages=list(messages),
                tools=list(tools) or None,
                add_generation_prompt=answer,
                bos_token=self._bos,
                eos_token=self._eos,
            )
        except (
            TypeError,
            ValueError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            # A template is a program: what it does not foresee shows as any of these.
            raise TemplateRefused(f"the chat template refused the messages: {error}") from error


def template_names() -> tuple[str, ...]:
    """Return the names of the templates at hand.

    >>> "llama-3.1" in template_names()
    True
    """
    return tuple(sorted(file.name.removesuffix(".jinja") for file in _FOLDER.glob("*.jinja")))


@cache
def _source(name: str) -> str:
    if name in template_names():
        return (_FOLDER / f"{name}.jinja").read_text(encoding="utf-8")
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(template_names())
        reason = f"no template {name!r} and no readable file of that path ({error}); known: {known}"
        raise InvalidModel("model", "chat_template", reason) from error
