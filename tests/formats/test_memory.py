"""Files larger than memory: memory use does not grow with the file."""

import json
import subprocess
import sys

import pytest

from formats import samples

# Not `ru_maxrss`, which begins with what the process held that started this one.
MEASURED = """
import re, sys
from pathlib import Path
from brimful.formats import Reader
for record in Reader([sys.argv[1]]).records():
    pass
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024, record.id)
"""
MEBIBYTE = 2**20


def channel(size):
    request = {**samples.discord_channel(), "messages": []}
    head, tail = json.dumps(request).split('"messages": []')
    yield head + '"messages": ['
    message = samples.discord_message("1", "x" * 4000, 1)
    for at in range(size // 4500):
        yield ("," if at else "") + json.dumps({**message, "id": str(at)})
    yield "]" + tail


def conversations(size):
    yield "["
    conversation = samples.chatgpt_conversation()
    conversation["mapping"]["q1"]["message"]["content"]["parts"] = ["x" * 100_000]
    for at in range(size // 105_000):
        yield ("," if at else "") + json.dumps({**conversation, "conversation_id": f"c{at}"})
    yield "]"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells what a process held at the most")
@pytest.mark.parametrize("written", [channel, conversations])
def test_memory_does_not_grow_with_the_file(tmp_path, written):
    held = []
    for size in (1, 48):
        path = tmp_path / f"{size}.json"
        with path.open("w", encoding="utf-8") as file:
            file.writelines(written(size * MEBIBYTE))
        assert path.stat().st_size > 0.8 * size * MEBIBYTE
        done = subprocess.run([sys.executable, "-c", MEASURED, str(path)], check=True, capture_output=True, text=True)
        held.append(int(done.stdout.split()[0]))
    assert held[1] - held[0] < 12, held  # MiB
