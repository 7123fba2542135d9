"""Rows of the requirements about pictures: sent if they are needed, items of their own, and visible everywhere."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

import brimful
from brimful.cli.app import app
from brimful.engine import Engine
from brimful.records import Message
from brimful.testing import ScriptedProvider

NOW = 1_794_000_000.0
URL = "https://example.org/screenshot.png"
PICTURE = brimful.Media(modality="image", url=URL, width=1024, height=1024)
SHOWN = (brimful.Text(text="This is my desk."), PICTURE)
BLOCKS = [{"type": "text", "text": "This is my desk."}, {"type": "image_url", "image_url": {"url": URL}}]


CHAT = [
    {"role": "user", "content": BLOCKS},
    *({"role": "user" if n % 2 else "assistant", "content": f"Message {n}. " * 20} for n in range(20)),
    {"role": "user", "content": "Bye!"},
]


def tokens_of_texts(model):
    """Count the conversation without its picture."""
    return brimful.fit({"model": model, "messages": [{"role": "user", "content": "My desk."}, *CHAT[1:]]}).tokens


def run(story, url="sqlite://", **options):
    async def whole():
        async with Engine(url, **{"model": "gpt-4o", "embedder": None, "indexing": False, **options}) as engine:
            return await story(engine)

    return asyncio.run(whole())


async def furnish(engine, messages=2):
    """Post a picture, and messages after it."""
    await engine.post(room="r", content=SHOWN, id="desk", sender="Ada", at=NOW - 9_000)
    for n in range(messages):
        role = "user" if n % 2 else "assistant"
        await engine.post(room="r", text=f"Message {n} of this room. " * 8, id=f"m{n}", role=role, at=NOW - 8_000 + n)


def has_picture(request):
    return URL in json.dumps(request)


@pytest.mark.parametrize(
    ("policy", "message", "sent"),
    [
        ("default", "Thanks, bye!", False),
        ("default", "What's in the picture?", True),
        ("auction", "Thanks, bye!", False),
        ("auction", "Describe the desk", True),
        ("split", "Thanks, bye!", True),
    ],
)
def test_0_32_pictures_of_older_messages_are_sent_if_the_message_asks_about_them(policy, message, sent):
    """No media where none is asked for (needsVision)."""

    async def story(engine):
        await furnish(engine)
        return await engine.assemble(room="r", message=message, policy=policy, now=NOW)

    context = run(story)
    assert has_picture(context.request) == sent
    assert context.decision("desk/image-1").tokens == (765 if sent else context.component("media").tokens)
    assert context.component("media").tokens == (765 if sent else context.decision("desk/image-1").cost)
    assert context.component("media").tokens == 765 or context.component("media").tokens < 40


def test_0_32_a_policy_key_sends_them_whenever_there_is_room():
    """The key `media.when` decides."""

    async def story(engine):
        await furnish(engine)
        return [
            await engine.assemble(room="r", message="Thanks, bye!", overrides={"media.when": when}, now=NOW)
            for when in ("always", "needed", "never")
        ]

    assert [has_picture(context.request) for context in run(story)] == [True, False, False]


@pytest.mark.parametrize("policy", ["default", "auction", "pools", "split", "window"])
def test_0_33_a_picture_goes_before_any_message_does(policy):
    """Pictures of a room are items of their own: low priority, droppable, and not at the expense of messages."""

    async def story(engine):
        await furnish(engine, messages=30)
        arguments = {"room": "r", "message": "Look at my desk", "policy": policy, "completion": 500, "now": NOW}
        arguments["overrides"] = {"margin.share": 0.0, "margin.tokens": 0}
        large = await engine.assemble(**arguments, window=16_000)
        limit = large.tokens - 600  # enough for the picture in low detail
        return large, await engine.assemble(**arguments, window=16_000, max_prompt_tokens=limit)

    large, small = run(story)
    assert large.decision("desk/image-1").form == "full"
    assert small.decision("desk/image-1").form in ("low", "stub")
    for context in (large, small):
        outcomes = [each.outcome for each in context.decisions if each.kind == "message-recent"]
        assert outcomes == ["kept"] * 31
    assert large.decision("desk").score.priority > large.decision("desk/image-1").score.priority == 0.3


def test_0_33_in_a_small_window_all_messages_are_kept_and_the_picture_is_one_line():
    """In a window of 3,000 tokens, the picture went in and 11 candidates stayed out."""

    async def story(engine):
        await furnish(engine, messages=30)
        return await engine.assemble(room="r", message="Look at my desk", window=3_000, completion=500, now=NOW)

    context = run(story)
    assert [each.outcome for each in context.decisions if each.kind == "message-recent"] == ["kept"] * 31
    assert context.decision("desk/image-1").form in ("low", "stub")
    assert context.tokens <= 2_500


def test_0_33_all_ways_to_pass_a_conversation_treat_pictures_alike():
    """The engine, the library and `fit` leave the picture out, and keep every message."""
    request = {"model": "gpt-4-turbo", "messages": CHAT}
    limits = {"model": "gpt-4-turbo", "window": tokens_of_texts("gpt-4-turbo") + 600, "completion": 500, "now": NOW}
    fitted = brimful.fit(request, **limits)
    library = brimful.assemble(brimful.conversation(CHAT, model="gpt-4-turbo"), **limits)
    for context in (fitted, library):
        ids = [each.id for each in context.decisions if not each.included]
        assert ids == []
        assert context.decision("msg-000000/image-1").form == "stub"
        assert not has_picture(context.request)
    text = fitted.request["messages"][0]["content"][1]
    assert text["type"] == "text"
    assert text["text"].startswith("[image: screenshot.png, left out")
    assert fitted.request["messages"][1:] == CHAT[1:]
    assert brimful.fit(request).request["messages"] == CHAT


def test_0_33_fit_asks_for_low_detail_before_it_leaves_a_picture_out():
    """A picture has a smaller form where the provider bills it."""
    window = tokens_of_texts("gpt-4o") + 700
    context = brimful.fit({"model": "gpt-4o", "messages": CHAT}, window=window, completion=500, now=NOW)
    assert context.decision("msg-000000/image-1").form == "low"
    assert context.request["messages"][0]["content"][1] == {
        "type": "image_url",
        "image_url": {"url": URL, "detail": "low"},
    }
    assert context.request["messages"][1:] == CHAT[1:]


@pytest.mark.parametrize(("model", "form"), [("gemini-3.5-flash", "low"), ("gemini-2.5-flash", "stub")])
def test_0_33_gemini_3_is_asked_for_low_detail_before_a_picture_is_left_out(model, form):
    """Its rule bills 280 tokens instead of 1,120. Gemini 2 has no resolution for a single picture."""
    counter = brimful.counter(model)
    picture = brimful.packagers.message(SHOWN, counter=counter, id="desk", timestamp=NOW - 9)
    question = "What do you see in the picture?"
    now = brimful.packagers.message(question, counter=counter, id="now", current=True, timestamp=NOW)
    context = brimful.assemble([picture, now], model=model, window=2_000, completion=100, now=NOW)
    assert context.decision("desk/image-1").form == form
    assert ("MEDIA_RESOLUTION_LOW" in json.dumps(context.request)) == (form == "low")
    if form == "low":
        assert context.decision("desk/image-1").cost == 280
    assert brimful.replay(context).request == context.request


def test_0_33_two_equal_pictures_of_a_message_are_two_items():
    """Each is sent or left out by itself."""
    messages = [{"role": "user", "content": [*BLOCKS, BLOCKS[1]]}, {"role": "user", "content": "Bye!"}]
    context = brimful.fit(
        {"model": "claude-sonnet-4-5", "messages": messages}, window=2_000, completion=100, now=NOW, model="gpt-4-turbo"
    )
    forms = [context.decision(f"msg-000000/image-{n}").form for n in (1, 2)]
    assert forms == ["full", "full"]
    small = brimful.fit({"model": "gpt-4-turbo", "messages": messages}, window=1_100, completion=100, now=NOW)
    kinds = [block["type"] for block in small.request["messages"][0]["content"]]
    assert kinds == ["text", "image_url", "image_url"]
    assert sorted(small.decision(f"msg-000000/image-{n}").form for n in (1, 2)) == ["full", "low"]
    details = [block["image_url"].get("detail") for block in small.request["messages"][0]["content"][1:]]
    assert sorted(details, key=str) == [None, "low"]


def test_2_49_send_a_picture_and_inspect_shows_its_tokens(tmp_path):
    """The end-to-end step: send a message with an image, then inspect shows media tokens and items."""
    url = f"sqlite:///{tmp_path}/chat.db"

    async def story(engine):
        await engine.post(room="r", content=SHOWN, id="desk", sender="Ada", at=NOW)

    run(story, url)
    runner = CliRunner()
    arguments = ["inspect", "--room", "r", "--db", url, "--embedder", "none", "--model", "gpt-4o"]
    text = runner.invoke(app, arguments).stdout
    assert "Media:                 765 tokens (1 image)" in text
    assert "- screenshot.png (765 tokens)" in text
    data = json.loads(runner.invoke(app, [*arguments, "--json"]).stdout)
    assert {"name": "media", "tokens": 765, "items": 1} in data["components"]
    assert [(each["id"], each["name"], each["tokens"]) for each in data["media"]] == [
        ("desk/image-1", "screenshot.png", 765)
    ]


def test_2_12_2_16_explain_monitor_and_stats_show_media(tmp_path):
    """Media tokens and items are in explain, monitor and stats, as text and as JSON."""
    url = f"sqlite:///{tmp_path}/chat.db"

    async def story(engine):
        return await engine.respond("r", message=Message(id="desk", room="r", content=SHOWN, sender="Ada", at=NOW))

    run(story, url, provider=ScriptedProvider(["A tidy desk."]))
    runner = CliRunner()

    def shown(*arguments):
        return runner.invoke(app, [*arguments, "--db", url]).stdout

    explained = shown("explain", "desk")
    assert "MEDIA (1 image, 765 tokens)" in explained
    assert "- screenshot.png (765 tokens)" in explained
    assert "Media: 765 tokens (1 item)" in shown("monitor")
    [media] = [each for each in json.loads(shown("stats", "--json"))[0]["components"] if each["name"] == "media"]
    assert (media["tokens"], media["items"]) == (765, 1)
    report = json.loads(shown("explain", "desk", "desk/image-1", "--json"))
    assert report["decision"]["tokens"] == 765
