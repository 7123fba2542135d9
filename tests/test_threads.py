"""Threads that decode a type for the first time at once, which crashed msgspec."""

import subprocess
import sys

MEET = """
import sys, threading
import msgspec
import brimful
from brimful import records

sys.setswitchinterval(1e-6)
said = brimful.package("message-current", "Hi", model="gpt-4o")
context = brimful.assemble([said], model="gpt-4o", now=0)
bodies = [(brimful.Context, context.to_json())]
bodies += [(kind, msgspec.json.encode(kind(id="x", **more))) for kind, more in (
    (records.Room, {}),
    (records.Persona, {}),
    (records.Response, {"context": "c", "room": "r"}),
    (records.Summary, {"room": "r", "content": "Said.", "cluster": "c"}),
)]
for kind, body in bodies:
    barrier = threading.Barrier(12)

    def read():
        barrier.wait()
        msgspec.json.decode(body, type=kind)

    threads = [threading.Thread(target=read) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_may_read_the_same_sort_of_record_first():
    for _ in range(4):  # it was one time in three
        subprocess.run([sys.executable, "-c", MEET], check=True, timeout=120)
