"""`brimful memory confirm` and `reject`, on proposals that somebody else's text made."""

import asyncio
import json

from brimful.engine import Engine


def propose(*facts):
    async def story():
        async with Engine("sqlite:///chat.db", embedder="none") as engine:
            return [(await engine.propose(text, user=user)).id for text, user in facts]

    return asyncio.run(story())


def test_proposals_are_listed_confirmed_rejected_and_undone(run):
    tea, bank, cats = propose(("Ada likes tea.", "ada"), ("Ada's bank is Evilbank.", "ada"), ("Bob has cats.", "bob"))
    db = ("--db", "sqlite:///chat.db")
    assert tea not in run("memory", "list", *db).stdout
    listed = json.loads(run("memory", "list", "--state", "proposed", "--json", *db).stdout)
    assert {each["id"] for each in listed} == {tea, bank, cats}
    assert "state" in run("memory", "show", bank, *db).stdout
    assert run("memory", "confirm", tea, *db).stdout.startswith("confirmed 1; run 1 is done")
    done = json.loads(run("memory", "reject", "--all", "--user", "ada", "--json", *db).stdout)
    assert done["facts"] == {"rejected": 1}
    assert [each["id"] for each in json.loads(run("memory", "list", "--json", *db).stdout)] == [tea]
    run("janitor", "undo", *db)
    run("janitor", "undo", *db)
    assert run("memory", "reject", "--all", *db).stdout.startswith("rejected 3")
    assert run("memory", "confirm", "--all", *db).stdout == "nothing is proposed\n"


def test_a_review_needs_an_id(run):
    propose(("Ada likes tea.", "ada"))
    db = ("--db", "sqlite:///chat.db")
    assert "pass either ids or --all" in run("memory", "confirm", *db, code=2).stderr
    assert "pass either ids or --all" in run("memory", "confirm", "x", "--all", *db, code=2).stderr
    assert "can only be used with --all" in run("memory", "reject", "x", "--user", "ada", *db, code=2).stderr
    assert "no proposed memory 'x'" in run("memory", "confirm", "x", *db, code=1).stderr
