"""Lines of OpenAI's batches: what was asked, and, in another file, what was answered, by the same `custom_id`.

See platform.openai.com/docs/guides/batch.
"""

from typing import Any

from brimful.importers.loose import kept, mapping, mappings, name, text

UNANSWERED = "is a line of a batch without an answer"


def request_of(data: Any) -> Any:
    """Return the request of a line of a batch, by the batch's id for it; what is no such line stays as it is.

    >>> request_of({"custom_id": "a", "method": "POST", "body": {"messages": []}})
    {'messages': [], 'id': 'a'}
    """
    match data:
        case {"custom_id": id, "body": {"messages": list()} as body}:
            return {**body, "id": id}
        case _:
            return data


def answers_of(line: dict[str, Any]) -> list[dict[str, Any]] | str:
    """Return the messages of a line that answers, one for each choice, or why there is none.

    >>> answers_of({"response": {"body": {"id": "c1", "choices": [{"message": {"content": "Hi"}}]}}})
    [{'content': 'Hi', 'id': 'c1', 'created': None, 'metadata': {}}]
    >>> answers_of({"response": None, "error": {"message": "It took too long."}})
    'is a line of a batch without an answer: It took too long.'
    """
    body = mapping(mapping(line.get("response")).get("body"))
    choices = mappings(body.get("choices"))
    if not choices:
        failure = mapping(line.get("error")) or mapping(body.get("error"))
        return ": ".join(filter(None, (UNANSWERED, text(failure.get("message")))))
    return [
        {
            **mapping(choice.get("message")),
            "id": name(body.get("id")),
            "created": body.get("created"),
            "metadata": kept(
                model=text(body.get("model")), finish_reason=choice.get("finish_reason"), usage=body.get("usage")
            ),
        }
        for choice in choices
    ]
