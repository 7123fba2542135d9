"""brimful embeddings."""

import sys


def test_list_tells_what_is_here_and_what_is_to_be_done(run, run_json):
    lines = run("embeddings", "list").stdout.splitlines()
    assert lines[0].split() == ["embedder", "dims", "MB", "texts/s", "languages", "licence", "here"]
    assert " ".join(lines[1].split()) == "static 256 11 12,000 en de es ru zh ja Apache-2.0 yes"
    assert lines[2].split() == ["small", "384", "12", "200", "en", "Apache-2.0", "yes"]
    models = lines[lines.index("for other languages, for example:") + 1 :]
    offers = run_json("embeddings", "list")
    assert [line.strip() for line in models] == [each["multilingual"] for each in offers if each["multilingual"]]
    assert "  ollama:bge-m3" in models
    assert [offer["name"] for offer in offers][:2] == ["static", "small"]
    assert offers[0]["missing"] == ""


def test_try_shows_how_near_texts_are(run, run_json):
    texts = ("a cat", "the kitten", "income tax and other long words")
    lines = run("embeddings", "try", *texts).stdout.splitlines()
    assert lines[0].split() == ["text", "1", "2", "3"]
    assert lines[1].split() == ["1", "a", "cat", "1.00", *lines[1].split()[4:]]
    assert "income tax and other lo…" in lines[3]
    data = run_json("embeddings", "try", *texts)
    assert data["embedder"] == "static-minilm-256@7"
    assert data["similarities"][0][1] > data["similarities"][0][2]


def test_try_with_something_that_is_not_here(fails, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert fails("embeddings", "try", "a", "b", "--embedder", "small").endswith("pip install 'brimful[small]'")
    assert fails("embeddings", "try", "a", "-e", "none") == "the embedder 'none' embeds nothing"
    assert fails("embeddings", "try", "a", "-e", "statik").startswith("embedder: must be one of static, small, ")
