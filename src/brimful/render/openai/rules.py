"""What OpenAI refuses in a chat completions request."""

from typing import Final

from brimful.render.functions import want_functions
from brimful.render.names import fits_name_field, is_tool_name
from brimful.render.openai.write import AUDIO_FORMATS, DETAILS
from brimful.render.rules import Object, Pairing, Report, check_tools, shown

_ROLES: Final = ("system", "developer", "user", "assistant", "tool")
_LONGEST_ID: Final = 40  # characters, by OpenAI's own error message
_MOST_CALLS: Final = 128  # in one message, by OpenAI's own error message
_WORDS: Final = ("text",)
_ANYTHING: Final = ("text", "image_url", "input_audio")


def find_violations(request: object) -> list[str]:
    """List every broken rule.

    >>> find_violations({"model": "gpt-4o", "messages": [{"role": "tool", "tool_call_id": "c2", "content": "tea"}]})
    ["messages[0]: tool result for 'c2' without its call"]
    """
    report = Report()
    body = report.want_object("request", request)
    if body is None:
        return report.violations
    report.want_filled("model", body.get("model"))
    for limit in ("max_completion_tokens", "max_tokens"):
        if body.get(limit) is not None:
            report.want_positive(limit, body[limit])
    if body.get("tools") is not None:
        check_tools(report, want_functions(report, body["tools"]))
    _check_messages(report, Pairing(report), body.get("messages"))
    return report.violations


def find_malformed(messages: object) -> list[str]:
    """List what cannot be read in a client's history. Whether calls have their results is not asked here.

    Tools may have shown pictures: other servers of this API take them, and they are sent as the user's.

    >>> find_malformed([{"role": "tool", "tool_call_id": "c2", "content": "tea"}])
    []
    >>> find_malformed([{"role": "user", "content": 7}])
    ['messages[0].content: must be a text or a list of parts, not a number']
    """
    report = Report()
    _check_messages(report, Pairing(Report()), messages, shown_by_tools=_ANYTHING)
    return report.violations


def _check_messages(
    report: Report, pairing: Pairing, messages: object, *, shown_by_tools: tuple[str, ...] = _WORDS
) -> None:
    for index, item in enumerate(report.want_list("messages", messages)):
        if _is_plain(item):
            pairing.close()
            continue
        place = f"messages[{index}]"
        message = report.want_object(place, item)
        if message is not None:
            _check_message(report, pairing, place, message, shown_by_tools)
    pairing.close()


def _is_plain(item: object) -> bool:
    """Say whether a message is what somebody says and nothing else, as most are: no rule is broken by one."""
    if not isinstance(item, dict) or len(item) != len(("role", "content")):
        return False
    role = item.get("role")
    return role != "tool" and role in _ROLES and isinstance(item.get("content"), str)


def _check_message(
    report: Report, pairing: Pairing, place: str, message: Object, shown_by_tools: tuple[str, ...]
) -> None:
    role = report.want_one_of(f"{place}.role", message.get("role"), _ROLES)
    if role == "tool":
        _check_result(report, pairing, place, message, shown_by_tools)
        return
    pairing.close()
    if role is not None:
        _check_spoken(report, pairing, place, message)


def _check_result(
    report: Report, pairing: Pairing, place: str, message: Object, shown_by_tools: tuple[str, ...]
) -> None:
    id = report.want_filled(f"{place}.tool_call_id", message.get("tool_call_id"))
    if id is not None:
        pairing.result(place, id)
    if message.get("tool_calls") is not None:
        report.add(f"{place}.tool_calls", "only an assistant message may call tools")
    content = message.get("content")
    if isinstance(content, list):
        _check_blocks(report, f"{place}.content", content, shown_by_tools)
    else:
        report.want_text(f"{place}.content", content)


def _check_spoken(report: Report, pairing: Pairing, place: str, message: Object) -> None:
    name = message.get("name")
    if name is not None and not (isinstance(name, str) and fits_name_field(name)):
        report.add(f"{place}.name", f"must be 1 to 64 characters without spaces, <, |, \\, / and >, {shown(name)}")
    calls = message.get("tool_calls")
    if calls is not None:
        _check_calls(report, pairing, place, message)
    if message.get("content") is not None:
        _check_content(report, place, message)
    elif message["role"] != "assistant" or calls is None:
        report.add(f"{place}.content", "must be a text or a list of parts, and is missing")


def _check_calls(report: Report, pairing: Pairing, place: str, message: Object) -> None:
    if message["role"] != "assistant":
        report.add(f"{place}.tool_calls", "only an assistant message may call tools")
    calls = list(report.want_objects(f"{place}.tool_calls", message["tool_calls"]))
    if len(calls) > _MOST_CALLS:
        report.add(f"{place}.tool_calls", f"has {len(calls)} calls, at most {_MOST_CALLS} are allowed")
    for at, call in calls:
        report.want_one_of(f"{at}.type", call.get("type"), ("function",))
        id = report.want_filled(f"{at}.id", call.get("id"))
        if id is not None:
            if len(id) > _LONGEST_ID:
                report.add(f"{at}.id", f"must have at most {_LONGEST_ID} characters, not {len(id)}")
            pairing.call(place, id)
        _check_function(report, f"{at}.function", call.get("function"))


def _check_function(report: Report, place: str, value: object) -> None:
    function = report.want_object(place, value)
    if function is not None:
        if not is_tool_name(function.get("name")):
            report.add(f"{place}.name", f"must be 1 to 64 of a-z, A-Z, 0-9, _ and -, {shown(function.get('name'))}")
        report.want_text(f"{place}.arguments", function.get("arguments"))


def _check_content(report: Report, place: str, message: Object) -> None:
    content = message["content"]
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        report.add(f"{place}.content", f"must be a text or a list of parts, {shown(content)}")
        return
    _check_blocks(report, f"{place}.content", content, _ANYTHING if message["role"] == "user" else _WORDS)


def _check_blocks(report: Report, place: str, blocks: object, allowed: tuple[str, ...]) -> None:
    for at, block in report.want_objects(place, blocks):
        match report.want_one_of(f"{at}.type", block.get("type"), allowed):
            case "text":
                report.want_text(f"{at}.text", block.get("text"))
            case "image_url":
                _check_image(report, f"{at}.image_url", block.get("image_url"))
            case "input_audio":
                _check_audio(report, f"{at}.input_audio", block.get("input_audio"))


def _check_image(report: Report, place: str, value: object) -> None:
    image = report.want_object(place, value)
    if image is None:
        return
    url = report.want_filled(f"{place}.url", image.get("url"))
    if url is not None and not url.startswith(("https://", "http://", "data:")):
        report.add(f"{place}.url", f"must start with https:, http: or data:, {shown(url)}")
    if image.get("detail") is not None:
        report.want_one_of(f"{place}.detail", image["detail"], DETAILS)


def _check_audio(report: Report, place: str, value: object) -> None:
    sound = report.want_object(place, value)
    if sound is not None:
        report.want_filled(f"{place}.data", sound.get("data"))
        report.want_one_of(f"{place}.format", sound.get("format"), tuple(AUDIO_FORMATS.values()))
