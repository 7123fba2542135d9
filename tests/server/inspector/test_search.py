"""Search over everything."""

import pytest

from server.inspector.conftest import ROOT


def hits(get, q, **query):
    return [(hit["kind"], hit["id"]) for hit in get("/search", q=q, **query)["hits"]]


@pytest.mark.parametrize(
    ("q", "hit"),
    [
        ("allergic HAZELNUT", ("memory", "nuts")),
        ("nuts", ("memory", "nuts")),
        ("green sencha", ("lore", "teas/1")),
        ("choose a tea", ("room", "tea/room")),
        ("who knows tea", ("persona", "nova")),
        ("kabusecha", ("message", "")),
    ],
)
def test_every_kind_of_record_is_found(get, q, hit):
    assert any(kind == hit[0] and id.startswith(hit[1]) for kind, id in hits(get, q))


def test_a_context_is_found_by_its_id_and_by_its_answer(get, kept):
    assert ("context", kept.second) in hits(get, kept.second)
    assert ("context", kept.first) in hits(get, "kabusecha")


def test_a_message_comes_with_its_room(get):
    message = next(hit for hit in get("/search", q="kabusecha")["hits"] if hit["kind"] == "message")
    assert (message["parent"], message["excerpt"]) == ("tea/room", "Kabusecha.")


def test_the_number_of_hits_of_a_kind_is_limited(get):
    found = get("/search", q="sencha", limit=2)
    assert [hit["kind"] for hit in found["hits"]].count("message") == 2
    assert found["partial"] is False


def test_nothing_is_found(get):
    assert hits(get, "xylophone zebra") == []


def test_an_empty_query_is_rejected(client):
    assert client.get(f"{ROOT}/search").status_code == 400
