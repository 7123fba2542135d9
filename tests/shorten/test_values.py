"""Values of texts that later steps may need."""

import json

import pytest

from brimful.shorten.values import find_values, is_error, write_values


def texts(text):
    return [value.text for value in find_values(text)]


def test_identifiers_are_worth_more_than_dates_names_numbers_and_times():
    data = {
        "id": "W-17",
        "at": "2024-05-01",
        "name": "Ada Lovelace",
        "total": 80,
        "opens": "09:30",
        "path": "src/tea.py",
    }
    worth = {value.text: value.worth for value in find_values(json.dumps(data))}
    assert (
        worth["W-17"]
        == worth["src/tea.py"]
        > worth["2024-05-01"]
        > worth["Ada Lovelace"]
        > worth["80"]
        > worth["09:30"]
    )


def test_each_value_has_the_highest_worth_that_it_has_anywhere():
    assert [value.key for value in find_values('{"note": "W-17", "id": "W-17"}')] == ["note"]
    assert texts('{"a": "x", "b": null, "c": true, "d": [], "e": "yes"}') == ["true", "yes"]


def test_keys_with_digits_are_identifiers():
    assert texts('{"methods": {"card_17": {"brand": "visa"}}}') == ["card_17", "visa"]


def test_long_texts_are_cut_and_worth_little():
    (value,) = find_values(json.dumps({"note": "word " * 100}))
    assert value.text.endswith("…")
    assert len(value.text) <= 161


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("  \n", []),
        ("ok", ["ok"]),
        ("{broken", ["{broken"]),
        (
            "x" * 70 + " see src/tea.py and W-17 of Ada Lovelace, in LHR. " + "y " * 70,
            ["src/tea.py", "W-17", "Ada Lovelace", "LHR"],
        ),
        ("z" * 300, []),
        ("5 " * 100 + "_" * 100, []),
    ],
)
def test_values_in_prose(text, found):
    assert texts(text) == found


def test_an_error_has_its_first_and_its_last_line():
    trace = "Traceback (most recent call last):\n" + '  File "tea.py", line 7\n' * 40 + "ValueError: no tea"
    found = texts(trace)
    assert found[0].startswith("Traceback (most recent call last): File")
    assert found[1] == "ValueError: no tea"
    log = "Error: it failed\n" + "word " * 200
    assert texts(log)[0].startswith("Error: it failed word")


def test_only_texts_are_errors():
    assert is_error("  fatal: no such branch")
    assert not is_error('{"error": null}')
    assert not is_error("Done without failures")


def test_only_a_part_of_many_values_and_long_texts_is_read():
    assert len(find_values(json.dumps([f"id_{number}" for number in range(5_000)]))) == 2_000
    assert len(find_values("word " * 30_000 + "tea_1")) == 1


def test_times_in_prose_are_worth_little():
    text = "word " * 40 + "at 2024-05-01T10:00:00"
    assert {value.worth for value in find_values(text)} < {0.05, 0.6, 1.0}


def test_numbers_always_have_their_keys():
    assert write_values(find_values('[{"price": 12, "unit": "euro"}, {"price": 13, "unit": "cent"}]')) == (
        "price 12, unit euro; price 13, cent"
    )


@pytest.mark.parametrize("depth", range(900, 1_010))
def test_data_is_read_unless_it_is_too_deep_for_the_parser(depth):
    assert texts(f'{"[" * depth}"tea_1"{"]" * depth}') in (["tea_1"], [])


def test_data_may_start_with_white_space():
    assert texts('\n {"id": "W-17", "paid": true}') == ["W-17", "true"]


def test_values_of_rows_are_told_apart():
    rows = [{"id": "W-1", "state": "sent"}, {"id": "W-2", "state": "sent"}]
    found = find_values(json.dumps({"orders": rows, "more": {"W-3": {"state": "sent"}}, "page": 1}))
    assert [(value.text, value.row) for value in found] == [
        *(("W-1", 1), ("sent", 1), ("W-2", 2), ("sent", 2), ("W-3", 3), ("sent", 3)),
        ("1", 0),
    ]


def test_lines_of_a_text_that_differ_from_most_others_are_values():
    log = [f"12:0{number % 10} request {number} done" for number in range(1_000)]
    log[700] = "12:03 disk sda1 is full"
    found = texts("\n".join(log))
    assert "12:03 disk sda1 is full" in found
    assert found.count("12:00 request 0 done") == 1
    assert "12:01 request 1 done" not in found


def test_the_rarest_of_very_many_lines_are_values():
    common = [f"{word} again" for word in ("ab" * at for at in range(1, 500))]
    assert "only once" in texts("\n".join([*common, *common, "only once"]))


def test_lines_of_a_text_in_json_are_values():
    found = texts(json.dumps({"exit": 0, "stdout": "all is well here\n" * 30 + "fatal: no space left\n"}))
    assert "fatal: no space left" in found


def test_a_licence_has_no_codes():
    text = "Fly from LHR to JFK. THE SOFTWARE IS PROVIDED AS IS, WITHOUT WARRANTY OF ANY KIND, EXPRESS. " * 3
    assert texts(text) == ["LHR", "JFK"]


def test_values_that_look_alike_are_siblings():
    found = {value.text: value for value in find_values(" ".join(f"tea_{at}" for at in range(50)) + " cup-17b " * 10)}
    assert found["tea_7"].siblings == 50
    assert found["cup-17b"].siblings == 1


def test_json_that_was_cut_has_its_values():
    found = find_values('{"order": "W-17", "state": "sent", "total": 80, "note": "left at the do…')
    assert [value.written for value in found] == ["W-17", "state sent", "total 80"]
