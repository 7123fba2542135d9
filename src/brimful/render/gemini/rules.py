"""What Gemini refuses in a generateContent request."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from brimful.render.gemini.write import MIME_FAMILIES
from brimful.render.rules import Object, Pairing, Report, check_tools, shown

_FUNCTION_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_ALLOWED: Final = {
    "user": ("text", "inlineData", "fileData", "functionResponse"),
    "model": ("text", "inlineData", "fileData", "functionCall"),
    "system": ("text",),
}
_KINDS: Final = ("text", "inlineData", "fileData", "functionCall", "functionResponse")


def find_violations(request: object) -> list[str]:
    """List every broken rule.

    >>> find_violations({"model": "models/gemini-3-pro", "contents": [{"role": "model", "parts": [{"text": "Hi"}]}]})
    ["contents[0]: the first turn must be the user's", "contents: the last turn must be the user's"]
    """
    report = Report()
    body = report.want_object("request", request)
    if body is None:
        return report.violations
    report.want_filled("model", body.get("model"))
    _check_config(report, body.get("generationConfig"))
    if body.get("tools") is not None:
        check_tools(report, _want_declarations(report, body["tools"]))
    if body.get("systemInstruction") is not None:
        _check_system(report, body["systemInstruction"])
    _check_contents(report, body.get("contents"))
    return report.violations


def _check_config(report: Report, value: object) -> None:
    if value is None:
        return
    config = report.want_object("generationConfig", value)
    if config is not None and config.get("maxOutputTokens") is not None:
        report.want_positive("generationConfig.maxOutputTokens", config["maxOutputTokens"])


def _want_declarations(report: Report, tools: object) -> Iterator[tuple[str, Object]]:
    for place, tool in report.want_objects("tools", tools):
        for at, declared in report.want_objects(f"{place}.functionDeclarations", tool.get("functionDeclarations")):
            name = declared.get("name")
            if isinstance(name, str) and name[:1].isdigit():
                report.add(f"{at}.name", f"must begin with a letter or _, {shown(name)}")
            for schema in ("parameters", "parametersJsonSchema"):
                if declared.get(schema) is not None:
                    report.want_object(f"{at}.{schema}", declared[schema])
            yield at, declared


def _check_system(report: Report, value: object) -> None:
    system = report.want_object("systemInstruction", value)
    if system is not None:
        _check_parts(report, Pairing(report), "systemInstruction", system, "system")


def _check_contents(report: Report, contents: object) -> None:
    pairing = Pairing(report)
    before = "model"
    for place, content in report.want_objects("contents", contents):
        role = report.want_one_of(f"{place}.role", content.get("role"), ("user", "model"))
        if role is None:
            continue
        if role == before:
            first = place == "contents[0]"
            report.add(place, "the first turn must be the user's" if first else f"two {role} turns in a row")
        before = role
        _check_parts(report, pairing, place, content, role)
        if role == "user":
            pairing.close()
    pairing.close()
    if contents and before == "model":
        report.add("contents", "the last turn must be the user's")


def _check_parts(report: Report, pairing: Pairing, place: str, content: Object, role: str) -> None:
    for at, part in report.want_objects(f"{place}.parts", content.get("parts")):
        kinds = [kind for kind in _KINDS if kind in part]
        if len(kinds) != 1:
            report.add(at, f"must have exactly one of {', '.join(_KINDS)}")
        elif kinds[0] not in _ALLOWED[role]:
            report.add(at, f"{kinds[0]} has no place in a {role} turn")
        else:
            _CHECKS[kinds[0]](report, pairing, f"{at}.{kinds[0]}", part[kinds[0]])


def _check_text(report: Report, _: Pairing, place: str, value: object) -> None:
    report.want_filled(place, value)


def _check_data(report: Report, _: Pairing, place: str, value: object) -> None:
    data = report.want_object(place, value)
    if data is not None:
        _check_type(report, f"{place}.mimeType", data.get("mimeType"))
        report.want_filled(f"{place}.data", data.get("data"))


def _check_file(report: Report, _: Pairing, place: str, value: object) -> None:
    file = report.want_object(place, value)
    if file is not None:
        _check_type(report, f"{place}.mimeType", file.get("mimeType"))
        report.want_filled(f"{place}.fileUri", file.get("fileUri"))


def _check_type(report: Report, place: str, value: object) -> None:
    if not (isinstance(value, str) and value.startswith(MIME_FAMILIES)):
        report.add(place, f"must be a type of image, audio or video, {shown(value)}")


def _check_call(report: Report, pairing: Pairing, place: str, value: object) -> None:
    call = report.want_object(place, value)
    if call is None:
        return
    name = _want_name(report, place, call)
    if call.get("args") is not None:
        report.want_object(f"{place}.args", call["args"])
    if call.get("id") is not None:
        id = report.want_filled(f"{place}.id", call["id"])
        if id is not None:
            pairing.call(place, id)
    elif name is not None:
        pairing.call_by_name(place, name)


def _check_response(report: Report, pairing: Pairing, place: str, value: object) -> None:
    answer = report.want_object(place, value)
    if answer is None:
        return
    name = _want_name(report, place, answer)
    report.want_object(f"{place}.response", answer.get("response"))
    key = report.want_filled(f"{place}.id", answer["id"]) if answer.get("id") is not None else name
    if key is not None:
        pairing.result(place, key)


def _want_name(report: Report, place: str, function: Object) -> str | None:
    name = function.get("name")
    if isinstance(name, str) and _FUNCTION_NAME.fullmatch(name):
        return name
    report.add(f"{place}.name", f"must be a letter or _ and up to 63 of a-z, A-Z, 0-9, _, ., : and -, {shown(name)}")
    return None


_CHECKS: Final[dict[str, Callable[[Report, Pairing, str, object], None]]] = {
    "text": _check_text,
    "inlineData": _check_data,
    "fileData": _check_file,
    "functionCall": _check_call,
    "functionResponse": _check_response,
}
