"""Chat templates of open models: rendered as the servers that run them do, and always the same.

Only the date is ours: it is an argument, never the clock.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

from brimful.core.model import Runtime
from brimful.counting.llama_cpp import ended, own
from brimful.errors import CountingError, InvalidModel

DEFAULT_DATE: Final = date(2024, 7, 26)
"""The date that templates print. Any other has as many tokens; Llama 3.1's own template falls back to this one."""

_FOLDER: Final = Path(__file__).with_name("templates")

WireMessage = dict[str, Any]


class TemplateRefused(CountingError):
    """A chat template does not take these messages: a role, an order or a tool call that it has no form for."""


class TemplateOptions(TypedDict, total=False):
    """What a template depends on beside its source and the messages."""

    bos: str
    eos: str
    today: date
    runtime: Runtime
    thinking: bool | None


class ChatTemplate:
    r"""A chat template that can be rendered.

    >>> chatml = ChatTemplate.named("chatml")
    >>> chatml.render([{"role": "user", "content": "hi"}])
    '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n'
    """

    def __init__(
        self,
        source: str,
        *,
        bos: str = "",
        eos: str = "",
        today: date = DEFAULT_DATE,
        runtime: Runtime = "transformers",
        thinking: bool | None = None,
    ) -> None:
        """Compile the source; `bos` and `eos` are the tokens that begin and end a text."""
        from brimful.counting.sandbox import compile_template  # noqa: PLC0415 - jinja2 loads for those who need it

        self._render = compile_template(source, today, runtime)
        self._variables: dict[str, object] = {"bos_token": bos, "eos_token": eos}
        self._as_llama_cpp = runtime == "llama.cpp"
        if thinking is not None or self._as_llama_cpp:
            self._variables["enable_thinking"] = thinking is not False

    @classmethod
    def named(cls, name: str, **options: Unpack[TemplateOptions]) -> "ChatTemplate":
        """Return the template of that name, or the one in the file of that path."""
        return cls(_source(name), **options)

    @property
    def continues(self) -> bool:
        """Whether a last message of the assistant's is gone on with, instead of answered."""
        return self._as_llama_cpp

    def render(
        self,
        messages: Sequence[WireMessage],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        answer: bool = True,
    ) -> str:
        """Return the text that the model reads; with `answer`, it ends where the model's answer begins."""
        shown: dict[str, Any] = {"messages": list(messages), "tools": list(tools) or None}
        try:
            if self._as_llama_cpp:
                return self._rendered_by_llama_cpp(shown, answer=answer)
            return self._render(**shown, **self._variables, add_generation_prompt=answer)
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

    def _rendered_by_llama_cpp(self, shown: dict[str, Any], *, answer: bool) -> str:
        rendered = self._render(**own(shown), **self._variables, add_generation_prompt=answer)
        return ended(rendered) if answer else rendered


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
