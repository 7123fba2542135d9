"""Messages and steps of agents in the formats of the providers."""

import json

WIRES = ("openai", "anthropic", "responses", "gemini")
FIELDS = {"responses": "input", "gemini": "contents"}


def say(wire, role, text):
    if wire == "gemini":
        return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}
    return {"role": role, "content": text}


def step(wire, number, result):
    """A call with its result."""
    id, arguments = f"call_{number:08}", {"order": f"W{number}"}
    match wire:
        case "openai":
            call = {"id": id, "type": "function", "function": {"name": "get_order", "arguments": json.dumps(arguments)}}
            return [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": id, "content": result},
            ]
        case "anthropic":
            call = {"type": "tool_use", "id": id, "name": "get_order", "input": arguments}
            answer = {"type": "tool_result", "tool_use_id": id, "content": result}
            return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]
        case "responses":
            call = {"type": "function_call", "call_id": id, "name": "get_order", "arguments": json.dumps(arguments)}
            return [call, {"type": "function_call_output", "call_id": id, "output": result}]
        case _:
            call = {"functionCall": {"id": id, "name": "get_order", "args": arguments}}
            answer = {"functionResponse": {"id": id, "name": "get_order", "response": {"output": result}}}
            return [{"role": "model", "parts": [call]}, {"role": "user", "parts": [answer]}]
