"""Opening the store or the engine for a command."""

from brimful.cli.options import StoreOptions
from brimful.cli.store import with_engine, with_store


class Answer:
    """Knows whether it was written out as text: of a long context that takes as long as to build it."""

    def __init__(self):
        self.written = False

    def __repr__(self):
        self.written = True
        return "an answer"


async def answer(_):
    return Answer()


def test_an_answer_is_not_written_out_on_its_way(run):
    run("room", "add", "general")
    assert not with_engine(answer, target=StoreOptions()).written
    assert not with_store(answer, target=StoreOptions()).written


def test_a_store_may_be_named_by_its_path(run, tmp_path):
    path = tmp_path / "named.db"
    run("room", "add", "general", "--db", str(path))
    assert path.exists()
    assert "general" in run("room", "list", "--db", str(path)).stdout
