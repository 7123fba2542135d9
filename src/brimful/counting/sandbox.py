"""Where chat templates run: Jinja as Hugging Face's `apply_chat_template` defines it, or as llama.cpp does.

Sandboxed, blocks trimmed, with `tojson`, `raise_exception` and `strftime_now`.
"""

import json
from collections.abc import Callable
from datetime import date
from functools import cache
from typing import Any, Final, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from brimful.core.model import Runtime
from brimful.counting import llama_cpp
from brimful.errors import InvalidModel


@cache
def compile_template(source: str, today: date, runtime: Runtime) -> Callable[..., str]:
    """Return a function that renders the template; what the template refuses is a `ValueError`."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols"],
        finalize=llama_cpp.printed_value if runtime == "llama.cpp" else None,
    )
    environment.filters |= _FILTERS[runtime]
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = today.strftime
    try:
        template = environment.from_string(source)
    except TemplateError as error:
        raise InvalidModel("model", "chat_template", f"not a template: {error}") from error

    def render(**variables: Any) -> str:
        try:
            return template.render(**variables)
        except TemplateError as error:
            raise ValueError(error.message) from error

    return render


def _tojson(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - the filter's signature is Hugging Face's
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002 - the filter's signature is Hugging Face's
) -> str:
    # Unlike Jinja's own filter, nothing is escaped for HTML.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


_FILTERS: Final[dict[Runtime, dict[str, Callable[..., object]]]] = {
    "transformers": {"tojson": _tojson},
    "llama.cpp": {"tojson": llama_cpp.to_json, "trim": llama_cpp.trim, "dictsort": llama_cpp.dictsort},
}


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)
