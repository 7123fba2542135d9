"""What Anthropic refuses in a messages request."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from brimful.render.anthropic.write import IMAGE_TYPES, MOST_BREAKPOINTS
from brimful.render.names import is_tool_name
from brimful.render.rules import Object, Pairing, Report, check_tools, shown

_ALLOWED: Final = {
    "user": ("text", "image", "tool_result"),
    "assistant": ("text", "tool_use"),
    "system": ("text",),  # models before Opus 4.8 refuse these turns; which model it is, is not looked up here
}
_IN_ID: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def find_violations(request: object) -> list[str]:
    """List every broken rule.

    >>> asked = {"role": "user", "content": [{"type": "text", "text": ""}]}
    >>> find_violations({"model": "claude-sonnet-5", "messages": [asked]})
    ['max_tokens: must be a whole number above 0, and is missing', 'messages[0].content[0].text: must not be empty']
    """
    report = Report()
    body = report.want_object("request", request)
    if body is None:
        return report.violations
    report.want_filled("model", body.get("model"))
    report.want_positive("max_tokens", body.get("max_tokens"))
    if body.get("tools") is not None:
        check_tools(report, _want_tools(report, body["tools"]))
    if body.get("system") is not None:
        _check_system(report, body["system"])
    _check_turns(report, body.get("messages"))
    _check_breakpoints(report, body)
    return report.violations


def _want_tools(report: Report, tools: object) -> Iterator[tuple[str, Object]]:
    for place, tool in report.want_objects("tools", tools):
        schema = report.want_object(f"{place}.input_schema", tool.get("input_schema"))
        if schema is not None and schema.get("type") != "object":
            report.add(f"{place}.input_schema.type", f"must be 'object', {shown(schema.get('type'))}")
        yield place, tool


def _check_system(report: Report, system: object) -> None:
    if isinstance(system, str):
        return
    for place, block in report.want_objects("system", system):
        report.want_one_of(f"{place}.type", block.get("type"), ("text",))
        report.want_filled(f"{place}.text", block.get("text"))


def _check_turns(report: Report, messages: object) -> None:
    pairing = Pairing(report)
    turns = list(report.want_objects("messages", messages))
    before = "assistant"
    for place, turn in turns:
        role = report.want_one_of(f"{place}.role", turn.get("role"), ("user", "assistant", "system"))
        if role is None:
            continue
        _check_order(report, place, role, before)
        before = role
        _check_turn(report, pairing, place, turn)
    pairing.close()
    if turns and before == "assistant":
        _check_last(report, *turns[-1])


def _check_order(report: Report, place: str, role: str, before: str) -> None:
    if role != "user" and place == "messages[0]":
        report.add(place, "the first turn must be the user's")
    elif role == before:
        report.add(place, f"two {role} turns in a row")
    elif role == "system" and before == "assistant":
        report.add(place, "a system turn must follow one of the user's")
    elif role == "user" and before == "system":
        report.add(place, "after a system turn the assistant must speak")


def _check_turn(report: Report, pairing: Pairing, place: str, turn: Object) -> None:
    role, content = turn["role"], turn.get("content")
    if isinstance(content, str):
        report.want_filled(f"{place}.content", content)
    else:
        results_over = False
        for at, block in report.want_objects(f"{place}.content", content):
            type = report.want_one_of(f"{at}.type", block.get("type"), _ALLOWED[role])
            if type == "tool_result" and results_over:
                report.add(at, "tool results must come first in a user turn")
            results_over = results_over or type != "tool_result"
            if type is not None:
                _CHECKS[type](report, pairing, at, block)
    if role != "assistant":
        pairing.close()


def _check_text(report: Report, _: Pairing, place: str, block: Object) -> None:
    report.want_filled(f"{place}.text", block.get("text"))


def _check_image(report: Report, _: Pairing, place: str, block: Object) -> None:
    source = report.want_object(f"{place}.source", block.get("source"))
    if source is None:
        return
    match report.want_one_of(f"{place}.source.type", source.get("type"), ("base64", "url")):
        case "url":
            url = report.want_filled(f"{place}.source.url", source.get("url"))
            if url is not None and not url.startswith("https://"):
                report.add(f"{place}.source.url", f"must start with https://, {shown(url)}")
        case "base64":
            report.want_one_of(f"{place}.source.media_type", source.get("media_type"), IMAGE_TYPES)
            report.want_filled(f"{place}.source.data", source.get("data"))


def _check_call(report: Report, pairing: Pairing, place: str, block: Object) -> None:
    id = report.want_filled(f"{place}.id", block.get("id"))
    if id is not None:
        if not _IN_ID.issuperset(id):
            report.add(f"{place}.id", f"must be of a-z, A-Z, 0-9, _ and -, {shown(id)}")
        pairing.call(place, id)
    if not is_tool_name(block.get("name")):
        report.add(f"{place}.name", f"must be 1 to 64 of a-z, A-Z, 0-9, _ and -, {shown(block.get('name'))}")
    report.want_object(f"{place}.input", block.get("input"))


def _check_result(report: Report, pairing: Pairing, place: str, block: Object) -> None:
    id = report.want_filled(f"{place}.tool_use_id", block.get("tool_use_id"))
    if id is not None:
        pairing.result(place, id)
    if not isinstance(block.get("is_error", False), bool):
        report.add(f"{place}.is_error", f"must be true or false, {shown(block['is_error'])}")
    content = block.get("content")
    if content is None or isinstance(content, str):
        return
    for at, inner in report.want_objects(f"{place}.content", content):
        match report.want_one_of(f"{at}.type", inner.get("type"), ("text", "image")):
            case "text":
                _check_text(report, pairing, at, inner)
            case "image":
                _check_image(report, pairing, at, inner)


_CHECKS: Final[dict[str, Callable[[Report, Pairing, str, Object], None]]] = {
    "text": _check_text,
    "image": _check_image,
    "tool_use": _check_call,
    "tool_result": _check_result,
}


def _check_last(report: Report, place: str, turn: Object) -> None:
    content: Any = turn.get("content")
    last = content[-1] if isinstance(content, list) and content else content
    text = last.get("text") if isinstance(last, dict) else last
    if isinstance(text, str) and text != text.rstrip():
        report.add(f"{place}.content", "the last turn, if the assistant's, must not end with white space")


def _check_breakpoints(report: Report, body: Object) -> None:
    turns = body.get("messages")
    contents = [turn.get("content") for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else []
    lists = [blocks for blocks in (body.get("tools"), body.get("system"), *contents) if isinstance(blocks, list)]
    blocks = [block for blocks in lists for block in blocks if isinstance(block, dict)]
    found = sum(block.get("cache_control") is not None for block in blocks)
    if found > MOST_BREAKPOINTS:
        report.add("request", f"has {found} cache breakpoints, at most {MOST_BREAKPOINTS} are allowed")
