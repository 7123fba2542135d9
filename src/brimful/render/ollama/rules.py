"""What Ollama refuses in an /api/chat request, and what it would answer wrongly without a word."""

from typing import Final

from brimful.render.functions import want_functions
from brimful.render.rules import Object, Pairing, Report, check_tools

_ROLES: Final = ("system", "user", "assistant", "tool")


def find_violations(request: object) -> list[str]:
    """List every broken rule.

    >>> find_violations({"model": "qwen3", "messages": [{"role": "user", "content": "Hi"}]})
    ['options: must be an object, and is missing']
    """
    report = Report()
    body = report.want_object("request", request)
    if body is None:
        return report.violations
    report.want_filled("model", body.get("model"))
    _check_options(report, body.get("options"))
    for switch in ("stream", "truncate", "shift"):
        if not isinstance(body.get(switch, False), bool):
            report.add(switch, "must be true or false")
    if body.get("tools") is not None:
        check_tools(report, want_functions(report, body["tools"]))
    _check_messages(report, body.get("messages"))
    return report.violations


def _check_options(report: Report, value: object) -> None:
    options = report.want_object("options", value)
    if options is not None:
        report.want_positive("options.num_ctx", options.get("num_ctx"))
        if options.get("num_predict") is not None:
            report.want_positive("options.num_predict", options["num_predict"])


def _check_messages(report: Report, messages: object) -> None:
    pairing = Pairing(report)
    for place, message in report.want_objects("messages", messages):
        role = report.want_one_of(f"{place}.role", message.get("role"), _ROLES)
        if role == "tool":
            _check_result(report, pairing, place, message)
            continue
        pairing.close()
        if role is not None:
            _check_spoken(report, pairing, place, message)
    pairing.close()


def _check_result(report: Report, pairing: Pairing, place: str, message: Object) -> None:
    name = report.want_filled(f"{place}.tool_name", message.get("tool_name"))
    report.want_text(f"{place}.content", message.get("content"))
    id = message.get("tool_call_id")
    key = report.want_filled(f"{place}.tool_call_id", id) if id is not None else name
    if key is not None:
        pairing.result(place, key)


def _check_spoken(report: Report, pairing: Pairing, place: str, message: Object) -> None:
    images, calls = message.get("images"), message.get("tool_calls")
    if images is not None:
        _check_images(report, f"{place}.images", images)
    if calls is not None:
        _check_calls(report, pairing, place, message)
    content = message.get("content")
    if content is not None or (images is None and calls is None):
        text = report.want_text(f"{place}.content", content)
        if text == "" and not images and not calls:
            report.add(place, "must have content, images or tool calls")


def _check_images(report: Report, place: str, images: object) -> None:
    for index, image in enumerate(report.want_list(place, images)):
        data = report.want_filled(f"{place}[{index}]", image)
        if data is not None and data.startswith(("data:", "http:", "https:")):
            report.add(f"{place}[{index}]", "must be bare base64, not a URL")


def _check_calls(report: Report, pairing: Pairing, place: str, message: Object) -> None:
    if message["role"] != "assistant":
        report.add(f"{place}.tool_calls", "only an assistant message may call tools")
    for at, call in report.want_objects(f"{place}.tool_calls", message["tool_calls"]):
        function = report.want_object(f"{at}.function", call.get("function"))
        if function is None:
            continue
        name = report.want_filled(f"{at}.function.name", function.get("name"))
        if function.get("arguments") is not None:
            report.want_object(f"{at}.function.arguments", function["arguments"])
        if call.get("id") is not None:
            id = report.want_filled(f"{at}.id", call["id"])
            if id is not None:
                pairing.call(place, id)
        elif name is not None:
            pairing.call_by_name(place, name)
