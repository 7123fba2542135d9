"""brimful recall."""

from pathlib import Path

from brimful.core.context import Context


def left_out(context):
    """The context, and the id of a message that it left out."""
    read = Context.from_json(Path(context).read_bytes())
    return read, next(each.id for each in read.decisions if each.outcome == "dropped")


def test_an_item_is_shown_whole(run, run_json, context):
    read, id = left_out(context)
    assert run("recall", context, id).stdout.strip() == read.recall(id).text.strip()
    data = run_json("recall", context, id)
    assert (data["id"], data["whole"], data["outcome"]) == (id, True, "dropped")


def test_a_long_item_is_shortened_with_a_remark(run, context):
    read, id = left_out(context)
    result = run("recall", context, id, "--max-tokens", "20", "--query", "timeouts")
    assert 0 < len(result.stdout) < len(read.recall(id).text)
    size = read.recall(id).size
    assert result.stderr.endswith(f"of {size:,} tokens; use --max-tokens {size} to see all\n")


def test_a_query_finds_passages(run, run_json, context):
    _, id = left_out(context)
    number = int(id.removeprefix("m"))
    data = run_json("recall", context, "--query", f"Message number {number}")
    assert id in [passage["handle"] for passage in data["passages"]]
    assert f'recall "{data["passages"][0]["handle"]}"]' in run("recall", context, "-q", f"number {number}").stdout
    assert run("recall", context, "-q", "zebra").stdout == "nothing matches\n"


def test_mistakes_are_named(fails, context):
    assert fails("recall", context, "m99").startswith("no handle 'm99'; did you mean 'm39' or ")
    assert fails("recall", context) == "handle: pass a handle, or a query to search for"


def test_a_stored_context_also_recalls_what_was_no_candidate(run, run_json):
    for number in range(3):
        run("message", "add", "--room", "hall", f"The ladder of day {number} is blue.", "--id", f"d{number}")
    run("memory", "add", "Ada keeps bees.", "--id", "bees")
    options = ("--message", "Hi?", "--model", "gpt-4o", "--policy", "window")
    built = run_json("assemble", "--room", "hall", *options)
    id = built["id"]
    assert run("recall", id, "d1").stdout == "The ladder of day 1 is blue.\n"
    assert run_json("recall", id, "bees")["outcome"] is None
    assert [each["id"] for each in run_json("recall", id, "--query", "bees")["passages"]] == ["bees"]


def test_explain_names_the_handle_of_a_long_id(run, run_json):
    long = "a-message-with-an-id-of-many-letters"
    run("message", "add", "--room", "hall", "Hi.", "--id", long)
    built = run_json("assemble", "--room", "hall", "--message", "Hi?", "--model", "gpt-4o")
    handle = run_json("explain", built["id"], long)["handle"]
    assert len(handle) == 8
    assert f"handle   {handle}\n" in run("explain", built["id"], long).stdout
    assert run("recall", built["id"], handle).stdout == "Hi.\n"
