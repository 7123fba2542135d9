"""The loop of an agent with OpenAI's SDK, for runs of any length.

    pip install brimful openai
    OPENAI_API_KEY=… python examples/openai_agent.py "How large are the Python files here, and which is the largest?"

Before each request, `brimful.fit` makes the conversation fit: the task and the newest steps stay, and older steps
become lines of a ledger. The model can recall what it no longer sees.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai

import brimful

MAX_REQUESTS = 200


def run(
    client: openai.OpenAI,
    request: dict[str, Any],
    call_tool: Callable[[str, dict[str, Any]], str],
    **options: Any,
) -> list[Any]:
    """Let a model call tools until it answers, and return the whole conversation. The options are those of `fit`."""
    messages, context = list(request["messages"]), None
    for _ in range(MAX_REQUESTS):
        context = brimful.fit(
            {**request, "messages": messages}, previous=context, overrides={"recall": "tool"}, **options
        )
        message = client.chat.completions.create(**context.request).choices[0].message
        messages.append(message)
        if not message.tool_calls:
            break
        own = {tool.name: tool for tool in (brimful.recall_tool(context), brimful.tool_search(context))}
        for call in message.tool_calls:
            if call.type != "function":
                continue  # custom tools, which are not offered here
            name, arguments = call.function.name, call.function.arguments
            result = own[name](arguments) if name in own else call_tool(name, json.loads(arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return messages


def call_tool(name: str, arguments: dict[str, Any]) -> str:
    """List the files of a folder, or read one."""
    path = Path(arguments["path"])
    try:
        return (
            "\n".join(sorted(map(str, path.iterdir()))) if name == "list_folder" else path.read_text(encoding="utf-8")
        )
    except OSError as error:
        return f"Error: {error}"  # the model reads it, and tries something else


def describe(name: str, description: str) -> dict[str, Any]:
    """Describe a tool that takes a path."""
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def main() -> None:
    """Answer a question about files."""
    tools = [describe("list_folder", "List a folder."), describe("read_file", "Return the text of a file.")]
    request = {"model": "gpt-4o-mini", "tools": tools, "messages": [{"role": "user", "content": sys.argv[1]}]}
    sys.stdout.write(f"{run(openai.OpenAI(), request, call_tool)[-1].content}\n")


if __name__ == "__main__":
    main()
