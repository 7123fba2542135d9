"""What the seeds ask of a chat service."""

from server.conftest import start, upstream, upstream_server  # noqa: F401 - fixtures
from server.upstream import chat_answer

ROOT = "/brimful/v1"
GPT = {"id": "gpt", "name": "GPT Assistant", "prompt": "You are GPT.", "model": "gpt-4", "completion": 3_000}
CLAUDE = {"id": "claude", "name": "Claude Assistant", "prompt": "You are Claude.", "model": "claude-3-sonnet"}


def open_room(start, **upstream):  # noqa: F811 - the fixture
    client = start(upstream=upstream, remember={"embedder": "none", "policy": "window"})
    for persona in (GPT, CLAUDE):
        assert client.post(f"{ROOT}/personas", json=persona).status_code == 201
    assert client.post(f"{ROOT}/rooms", json={"id": "general", "persona": "gpt"}).status_code == 201
    return client


def test_1_24_any_persona_answers_in_a_room_by_name(start, upstream):  # noqa: F811
    """`chat/send --room="general" --message="@gpt test message"`, then `@claude` in the same room, without overflow."""
    client = open_room(start, window=None)
    long = "One of many messages that no small window holds. " * 40
    for at in range(20):
        client.post(f"{ROOT}/rooms/general/messages", json={"content": f"{at}: {long}", "sender": "Joel"})
    answers = {}
    for name in ("gpt", "claude"):
        upstream.answers = [chat_answer(f"This is {name}.")]
        body = {"content": f"@{name} test message", "sender": "Joel"}
        answered = client.post(f"{ROOT}/rooms/general/respond", json=body).json()
        assert answered["message"]["content"] == f"@{name} test message"
        (answers[name],) = answered["answers"]
    assert {name: answer["sender"] for name, answer in answers.items()} == {
        "gpt": "GPT Assistant",
        "claude": "Claude Assistant",
    }
    small, large = upstream.bodies
    assert (small["model"], large["model"]) == ("gpt-4", "claude-3-sonnet")
    assert 1 < len(small["messages"]) < len(large["messages"]), "the larger window has more of the room"
    assert answers["gpt"]["tokens"] <= 8_192 - 3_000


def test_4_25_a_chat_service_posts_assembles_inspects_and_responds(start, upstream):  # noqa: F811
    """The service assembles recent history and retrieved content for a request, and sends it to the model."""
    client = open_room(start)
    first = client.post(f"{ROOT}/rooms/general/messages", json={"content": "My cat is called Miso.", "id": "m1"})
    assert first.status_code == 201
    question = {"content": "What is my cat called?"}
    shown = client.get(f"{ROOT}/rooms/general/inspect", params=question).json()["context"]
    built = client.post(f"{ROOT}/rooms/general/assemble", json=question).json()
    assert "m1" in [decision["id"] for decision in shown["decisions"] if decision["position"] is not None]
    assert built["context"]["tokens"] == shown["tokens"] <= shown["available"]
    answered = client.post(f"{ROOT}/rooms/general/respond", json=question).json()["answers"][0]
    assert answered["text"] == "Thursday."
    assert upstream.bodies[0]["messages"] == built["request"]["messages"]


def test_4_25_a_chat_service_cleans_up(start):  # noqa: F811
    """What the janitor would do can be seen first, and undone afterwards."""
    client = open_room(start)
    noise = "The nightly build of the main branch has failed again, as it did before, and nobody knows why."
    for at in range(12):
        client.post(f"{ROOT}/rooms/general/messages", json={"content": noise, "at": 1_000_000.0 + at})

    def count_messages():
        return len(client.get(f"{ROOT}/rooms/general/messages").json()["messages"])

    planned = client.post(f"{ROOT}/rooms/general/janitor", json={"dry_run": True}).json()
    assert (len(planned["rooms"][0]["floods"]), count_messages()) == (1, 12)
    client.post(f"{ROOT}/rooms/general/janitor", json={})
    assert count_messages() < 12
    client.post(f"{ROOT}/janitor/undo")
    assert count_messages() == 12
