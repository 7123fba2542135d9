"""Runs in the forms of other APIs and back, so that requests in any form are judged by the same rules."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from agent_runs import system_of
from conversations import Message, Messages
from strict import text_of

Request = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wire:
    """How to write OpenAI's messages as a request of an API without its model, and how to read them back."""

    write: Callable[[Messages], Request]
    read: Callable[[Request], Messages]


def _call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _calls(message: Message) -> Iterator[tuple[str, str, str]]:
    for call in message.get("tool_calls") or ():
        yield call["id"], call["function"]["name"], call["function"]["arguments"]


def _arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"text": text}


def _system_text(messages: Messages) -> str:
    return "\n\n".join(text_of(message) for message in system_of(messages))


def _reading(role: str, text: str, calls: list[dict[str, Any]]) -> Message:
    return {"role": role, "content": text, **({"tool_calls": calls} if calls else {})}


# -- Anthropic's messages --------------------------------------------------------------------------------------------


def _write_anthropic(messages: Messages) -> Request:
    turns = [_to_anthropic(message) for message in messages[len(system_of(messages)) :]]
    joined = [
        {"role": role, "content": [block for _, blocks in group for block in blocks]}
        for role, group in groupby(turns, key=lambda turn: turn[0])
    ]
    return {"system": _system_text(messages), "max_tokens": 16, "messages": joined}


def _to_anthropic(message: Message) -> tuple[str, list[dict[str, Any]]]:
    text = text_of(message)
    if message["role"] == "tool":
        return "user", [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": text}]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    blocks += [
        {"type": "tool_use", "id": id, "name": name, "input": _arguments(arguments)}
        for id, name, arguments in _calls(message)
    ]
    return message["role"], blocks


def _read_anthropic(request: Request) -> Messages:
    messages: Messages = [{"role": "system", "content": request["system"]}]
    for turn in request["messages"]:
        content = turn["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in (each for each in blocks if each["type"] == "tool_result"):
            messages.append({"role": "tool", "tool_call_id": block["tool_use_id"], "content": text_of(block)})
        text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        uses = [block for block in blocks if block["type"] == "tool_use"]
        calls = [_call(use["id"], use["name"], json.dumps(use["input"], ensure_ascii=False)) for use in uses]
        if text or calls:
            messages.append(_reading(turn["role"], text, calls))
    return messages


# -- OpenAI's responses ----------------------------------------------------------------------------------------------


def _write_responses(messages: Messages) -> Request:
    items = [item for message in messages[len(system_of(messages)) :] for item in _to_items(message)]
    return {"instructions": _system_text(messages), "input": items}


def _to_items(message: Message) -> Iterator[dict[str, Any]]:
    text = text_of(message)
    if message["role"] == "tool":
        yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": text}
        return
    if text:
        yield {"type": "message", "role": message["role"], "content": text}
    for id, name, arguments in _calls(message):
        yield {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}


def _read_responses(request: Request) -> Messages:
    messages: Messages = [{"role": "system", "content": request["instructions"]}]
    for item in request["input"]:
        match item.get("type", "message"):
            case "function_call_output":
                message: Message = {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}
            case "function_call":
                call = _call(item["call_id"], item["name"], item["arguments"])
                if messages[-1].get("tool_calls"):
                    messages[-1]["tool_calls"].append(call)
                    continue
                message = _reading("assistant", "", [call])
            case _:
                message = {"role": item["role"], "content": text_of(item)}
        messages.append(message)
    return messages


# -- Gemini's generateContent ----------------------------------------------------------------------------------------


def _write_gemini(messages: Messages) -> Request:
    names = {id: name for message in messages for id, name, _ in _calls(message)}
    turns = [_to_gemini(message, names) for message in messages[len(system_of(messages)) :]]
    joined = [
        {"role": role, "parts": [part for _, parts in group for part in parts]}
        for role, group in groupby(turns, key=lambda turn: turn[0])
    ]
    return {"systemInstruction": {"parts": [{"text": _system_text(messages)}]}, "contents": joined}


def _to_gemini(message: Message, names: dict[str, str]) -> tuple[str, list[dict[str, Any]]]:
    text = text_of(message)
    if message["role"] == "tool":
        id = message["tool_call_id"]
        response = {"id": id, "name": names[id], "response": {"result": text}}
        return "user", [{"functionResponse": response}]
    parts: list[dict[str, Any]] = [{"text": text}] if text else []
    parts += [
        {"functionCall": {"id": id, "name": name, "args": _arguments(arguments)}}
        for id, name, arguments in _calls(message)
    ]
    return "model" if message["role"] == "assistant" else "user", parts


def _read_gemini(request: Request) -> Messages:
    messages: Messages = [{"role": "system", "content": request["systemInstruction"]["parts"][0]["text"]}]
    for turn in request["contents"]:
        for response in (part["functionResponse"] for part in turn["parts"] if "functionResponse" in part):
            content = response["response"].get("result", json.dumps(response["response"], ensure_ascii=False))
            messages.append({"role": "tool", "tool_call_id": response["id"], "content": content})
        text = "\n".join(part["text"] for part in turn["parts"] if "text" in part)
        made = [part["functionCall"] for part in turn["parts"] if "functionCall" in part]
        calls = [_call(call["id"], call["name"], json.dumps(call["args"], ensure_ascii=False)) for call in made]
        if text or calls:
            messages.append(_reading("assistant" if turn["role"] == "model" else "user", text, calls))
    return messages


WIRES = {
    "anthropic": Wire(_write_anthropic, _read_anthropic),
    "responses": Wire(_write_responses, _read_responses),
    "gemini": Wire(_write_gemini, _read_gemini),
}
