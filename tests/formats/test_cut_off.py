"""A file truncated at any byte is read completely, or reported as damaged."""

import os

import msgspec
import pytest

from brimful.errors import ImportRefused
from brimful.formats import Reader, Skipped, check_files, registry
from brimful.records import Memory, Message, Room
from formats import samples

OURS = [
    Room(id="r", name="Lobby", goal="Tea", created=5.0),
    Message(id="m", room="r", content="Hi", sender="Ada", at=6.0, seq=1),
    Memory(id="k", content="Ada likes tea."),
]
CHAT = [{"role": "user", "content": "Hi ü"}, {"role": "assistant", "content": "Hello!"}]
LINES = {
    "records.jsonl": b"".join(msgspec.json.encode(record) + b"\n" for record in OURS),
    "openai.jsonl": samples.lines(CHAT),
    "train.jsonl": samples.lines([{"messages": CHAT}, {"messages": CHAT}]),
    "chats/Nova/x.jsonl": samples.lines(samples.tavern_chat()),
    "dumped.jsonl": samples.lines(samples.langchain_dumped()[:3]),
}
WHOLE = samples.files() | {
    "conversations.json": samples.chatgpt_export()["conversations.json"],
    "nova.png": samples.png(
        samples.text_chunk("chara", samples.v2_card()), samples.text_chunk("ccv3", samples.v3_card())
    ),
    "packed.png": samples.png(samples.text_chunk("chara", samples.v2_card(), b"zTXt")),
    "openai.json": samples.written(CHAT),
    "request.json": samples.written({"messages": CHAT, "model": "m"}, indent=1),
}


EDGE = 300  # bytes at both ends of a long file of which each is tried; between them, every seventh


def lengths(whole):
    last = len(whole)
    return [at for at in reversed(range(last)) if at < EDGE or at >= last - EDGE or at % 7 == 0]


def reader(path):
    # To look for formats of other packages takes longer than to read a small file.
    return Reader([str(path)], formats=registry.BUILTIN_FORMATS)


def found_in(path):
    return [each for each in reader(path).records() if not isinstance(each, Skipped)]


def is_found_whole(path):
    """Say whether the check lets a file pass."""
    try:
        check_files(reader(path))
    except ImportRefused:
        return False
    return True


@pytest.mark.parametrize("name", LINES | WHOLE)
def test_a_truncated_file_is_found_by_the_check(tmp_path, name):
    whole = (LINES | WHOLE)[name]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(whole)
    os.utime(path, (1, 1))  # messages without a time have that of their file
    all_of_it = found_in(path)
    assert is_found_whole(path)
    assert all_of_it or name.startswith("groups/")
    kept = 0
    for length in lengths(whole):
        os.truncate(path, length)
        os.utime(path, (1, 1))
        if not is_found_whole(path):
            continue
        here = whole[:length].rstrip()
        ends = whole.startswith((here + b"\n", here + b" ")) or here == whole.rstrip()
        found = found_in(path)
        if name in LINES:
            assert ends or not found, (length, here[-40:])
            assert found == all_of_it[: len(found)]
        else:
            assert found == all_of_it or not found, (length, here[-40:])
        kept += bool(found)
    assert kept <= whole.count(b"\n") * 2 + 1
