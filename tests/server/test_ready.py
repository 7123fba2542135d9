"""Readiness."""


def test_a_missing_database_file_makes_the_server_unready(start, tmp_path):
    client, file = start(), tmp_path / "brimful.db"
    assert client.get("/ready").json() == {"status": "ready"}
    file.rename(tmp_path / "elsewhere.db")
    answer = client.get("/ready")
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "not_ready"
    assert client.get("/health").status_code == 200
    (tmp_path / "elsewhere.db").rename(file)
    assert client.get("/ready").status_code == 200


def test_a_store_in_memory_has_no_file(start):
    assert start(store="sqlite://").get("/ready").status_code == 200
