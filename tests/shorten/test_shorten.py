"""Shortened texts fit, keep what matters, and stay what they were."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.shorten import GAP_MARK, Shortener, detect, shorten

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(), inner, max_size=20),
    max_leaves=60,
)
LINES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=80), max_size=60).map("\n".join)


def words(text: str) -> int:
    return len(text.split())


@given(LINES, st.integers(0, 400), st.text(max_size=30))
def test_never_over_the_limit(text, limit, query):
    for count in (len, words):
        shorter = shorten(text, limit, count, query)
        assert shorter is None or (count(shorter.text) <= limit and 0 <= shorter.worth <= 1)


@given(
    st.lists(JSON, max_size=30) | st.dictionaries(st.text(), JSON, max_size=30),
    st.integers(30, 2000),
    st.text(max_size=20),
)
def test_json_stays_json(data, limit, query):
    text = json.dumps(data, ensure_ascii=False, indent=2)
    shorter = shorten(text, limit, len, query)
    assert shorter is None or (len(shorter.text) <= limit and json.loads(shorter.text) is not None)
    if len(json.dumps(data, ensure_ascii=False, separators=(",", ":"))) <= limit:
        assert shorter is not None
        assert json.loads(shorter.text) == data


@given(st.lists(st.text("abcdefgh ", min_size=1, max_size=60), max_size=60), st.integers(10, 800))
def test_prose_is_passages_in_order(sentences, limit):
    text = " ".join(f"{sentence.strip()}." for sentence in sentences)
    shorter = shorten(text, limit, len)
    if shorter is not None:
        at = 0
        for passage in shorter.text.split(GAP_MARK):
            at = text.index(passage.strip(), at) + len(passage.strip())


@pytest.mark.parametrize("tokens", [330, 1_300, 2_700, 6_700, 30_000])
def test_the_answer_is_found_in_long_prose(tokens):
    filler = "We talked about the weather, the garden and what to cook on Sunday. "
    half = filler * (tokens // 24)
    text = f"{half}Mira's cello was made in Cremona in 1921. {half}"
    shorter = shorten(text, 300, lambda part: len(part) // 4, query="Where was the cello of Mira made?")
    assert shorter is not None
    assert "made in Cremona in 1921" in shorter.text


def test_a_table_keeps_its_header_and_matching_rows():
    rows = [f"{number},user{number}@example.org,{number * 7}" for number in range(1000)]
    text = "\n".join(["id,email,points", *rows])
    assert detect(text) == "table"
    shorter = shorten(text, 200, len, query="How many points has user617@example.org?")
    assert shorter is not None
    assert shorter.text.startswith("id,email,points\n")
    assert "617,user617@example.org,4319" in shorter.text
    assert " lines]" in shorter.text


def test_a_markdown_table_keeps_the_line_below_its_header():
    text = "| name | price |\n|---|---|\n" + "".join(f"| item {number} | {number} |\n" for number in range(100))
    shorter = shorten(text, 120, len)
    assert shorter is not None
    assert shorter.text.startswith("| name | price |\n|---|---|\n")


def test_a_log_folds_repeats_and_keeps_errors():
    lines = [f"2026-11-02 10:00:{second:02} INFO polling queue {second}" for second in range(60)]
    lines[40] = "2026-11-02 10:00:40 ERROR connection refused by 10.0.0.7"
    lines[41] = "    at connect (net.js:12)"
    shorter = shorten("\n".join(lines), 300, len)
    assert shorter is not None
    assert shorter.kind == "log"
    assert "ERROR connection refused by 10.0.0.7\n    at connect (net.js:12)" in shorter.text
    assert "[40 similar lines]" in shorter.text


def test_code_keeps_signatures_and_the_part_that_matches():
    bodies = [
        f"def function_{n}(value):\n" + "".join(f"    step_{i} = value + {i}\n" for i in range(9)) for n in range(20)
    ]
    bodies[13] = "def parse_invoice(text):\n    total = text.split('TOTAL')[1]\n    return float(total)\n"
    text = "\n".join(bodies)
    assert detect(text) == "code"
    shorter = shorten(text, 900, len, query="Why does the invoice total fail?")
    assert shorter is not None
    assert "total = text.split('TOTAL')[1]" in shorter.text
    assert shorter.text.count("def function_") == 19


@pytest.mark.parametrize("limit", [5, 7, 8, 12, 20])
@pytest.mark.parametrize("at", [0, 700, 1_499])
def test_the_matching_sentence_comes_first_in_little_room(at, limit):
    sentences = [f"Tea number {n} was green and long after the winter walk." for n in range(1_500)]
    sentences[at] = "My cat is called Miso."
    shorter = shorten(" ".join(sentences), limit, words, query="What is the cat called?")
    assert shorter is not None
    assert ("My cat is called Miso." in shorter.text) is (limit >= 7)  # with a mark on each side


@pytest.mark.parametrize(
    ("signature", "end"),
    [
        ("  async load{n}(id: string): Promise<Order | undefined> {{", "  }"),
        ("export const load{n} = async (id: string) => {{", "}"),
        ("static int load{n}(const struct node *head)\n{{", "}"),
        ("func (s *Store) Load{n}(id string) (Order, error) {{", "}"),
        ("    public Order load{n}(String id) throws IOException {{", "    }"),
    ],
    ids=["method", "arrow function", "brace on its own line", "Go", "Java"],
)
def test_code_keeps_the_signatures_of_other_languages(signature, end):
    body = "".join(f"        if (value > {i}) {{ count += step({i}); }}\n" for i in range(9))
    text = "import something;\n" + "".join(f"{signature.format(n=n)}\n{body}{end}\n\n" for n in range(12))
    shorter = shorten(text, 1_400, len)
    assert shorter is not None
    assert shorter.kind == "code"
    assert shorter.text.lower().count("load") == 12


def test_a_diff_keeps_file_headers_and_the_hunk_that_matches():
    hunks = [f"@@ -{n},3 +{n},3 @@\n context\n-old value {n}\n+new value {n}\n" for n in range(1, 200, 10)]
    hunks[7] = "@@ -71,3 +71,3 @@\n context\n-timeout = 30\n+timeout = 60\n"
    text = "diff --git a/app.py b/app.py\n--- a/app.py\n+++ b/app.py\n" + "".join(hunks)
    shorter = shorten(text, 250, len, query="the timeout")
    assert shorter is not None
    assert shorter.text.startswith("diff --git a/app.py b/app.py\n--- a/app.py\n+++ b/app.py\n")
    assert "+timeout = 60" in shorter.text


def test_html_becomes_text():
    page = "<!DOCTYPE html><html><head><style>p {}</style></head><body><nav>Menu</nav><h1>Ladders</h1>"
    page += "<p>They are <b>long</b>.</p>" * 50 + "<script>track()</script></body></html>"
    shorter = shorten(page, 100, len)
    assert shorter is not None
    assert shorter.text.startswith("# Ladders\nThey are long.")
    assert "track" not in shorter.text


def test_json_keeps_ids_and_matching_elements():
    users = [{"id": f"user_{n}", "name": f"Name {n}", "bio": "text " * 100} for n in range(200)]
    text = json.dumps({"total": 200, "users": users}, indent=2)
    shorter = shorten(text, 900, len, query="What is the name of user_137?")
    assert shorter is not None
    data = json.loads(shorter.text)
    assert data["total"] == 200
    assert any(isinstance(user, dict) and user["id"] == "user_137" for user in data["users"])
    assert any(isinstance(user, str) and user.endswith("more") for user in data["users"])


@pytest.mark.parametrize("text", ["{" * 5000, "[1, 2", "{not json", "[" * 100_000])
def test_texts_that_only_look_like_json_are_cut_as_text(text):
    shorter = shorten(text, 50, len)
    assert shorter is not None or len(text) <= 50


ITEMS = " ".join(f"Item {n} is on the list." for n in range(2_000))


def test_search_matches_come_first_then_their_neighbors():
    start = ITEMS.index("Item 1500")
    shortener = Shortener(ITEMS, len, "", [(start, start + 200)])
    small, large = shortener.shorten(150), shortener.shorten(1_500)
    assert "Item 150" in small.text
    assert "Item 0 " not in small.text
    for item in (1_500, 1_507, 1_490, 1_515):
        assert f"Item {item} is on the list." in large.text
    assert large.worth > 0.7


def test_words_of_the_query_choose_within_what_search_found():
    text = ITEMS.replace("Item 1505 is", "The ladder is").replace("Item 20 is", "The ladder is not")
    start = text.index("Item 1490")
    small = Shortener(text, len, "Where is the ladder?", [(start, start + 1_000)]).shorten(100)
    assert "The ladder is on the list." in small.text
    assert "ladder is not" not in small.text


def test_a_focus_beyond_the_text_changes_nothing():
    plain, beyond = (Shortener(ITEMS, len, "", focus).shorten(200) for focus in ((), [(90_000, 90_100)]))
    assert plain == beyond


def test_the_focus_of_a_page_is_found_in_its_text():
    page = "<html><body>" + "".join(f"<p>Item {n} is on the list.</p>" for n in range(2_000)) + "</body></html>"
    start = page.index("Item 1500")
    assert "Item 150" in Shortener(page, len, "", [(start, start + 500)]).shorten(400).text


@pytest.mark.parametrize("seed", range(4))
def test_search_matches_are_in_every_excerpt_with_room_for_them(seed):
    sizes = [37 * (seed + 3) * n % 150 + 20 for n in range(300)]
    text = " ".join(f"{n} " + "x" * size + "." for n, size in enumerate(sizes)) + " The ladder is in the shed."
    start = text.index("The ladder")
    shortener = Shortener(text, words, "Where is the ladder?", [(start, start + 26)])
    for limit in range(40, words(text), 13):
        assert "The ladder is in the shed." in shortener.shorten(limit).text


def test_a_hunk_that_matches_comes_before_the_headers_of_other_files():
    files = (
        f"diff --git a/m{n}.py b/m{n}.py\n--- a/m{n}.py\n+++ b/m{n}.py\n"
        f"@@ -1 +1 @@\n-old {n}\n+{'payment' if n == 6 else 'new'} {n}\n"
        for n in range(12)
    )
    shorter = shorten("".join(files), 240, len, query="Where is the payment?")
    assert shorter is not None
    assert "+++ b/m6.py\n@@ -1 +1 @@\n-old 6\n+payment 6" in shorter.text


@pytest.mark.parametrize("query", ["3302223", "What happened to order 3302223?"])
def test_a_line_that_the_query_names_is_not_folded(query):
    text = "\n".join(f"On day {day}, order {day * 7919} was shipped." for day in range(900))
    shorter = shorten(text, 300, len, query=query).text
    assert "On day 417, order 3302223 was shipped." in shorter
    assert len(shorter) <= 300


def test_lines_stay_folded_if_the_query_names_most_of_them():
    text = "\n".join(f"On day {day}, order {day * 7919} was shipped." for day in range(900))
    assert shorten(text, 300, len, query="Which order was shipped?").text.count("similar lines") == 1


def make_log(lines, odd, *, noise=("handled request", "opened stream", "retry after error"), separator=" "):
    """A log of lines that differ in numbers and among a few texts, and one line that differs from all others."""
    rows = [
        separator.join(
            (f"2024-05-01 10:{at // 60 % 60:02}:{at % 60:02}", "INFO", f"{noise[at * at % len(noise)]} {at}")
        )
        for at in range(lines)
    ]
    rows[lines * 5 // 9] = odd
    return "\n".join(rows)


@pytest.mark.parametrize("lines", [200, 3_000, 40_000])
def test_a_line_that_differs_from_all_others_comes_first(lines):
    shorter = shorten(make_log(lines, "2024-05-01 11:07:01 INFO pool closed, order W-3391 is gone"), 2_000, len)
    assert shorter.kind == "log"
    assert "order W-3391 is gone" in shorter.text


def test_a_row_that_differs_from_all_others_comes_first():
    text = make_log(400, "2024-05-01 11:07:01\tINFO\torder 3391 is gone", noise=("ok",), separator="\t")
    shorter = shorten(text, 600, len)
    assert shorter.kind == "table"
    assert "order 3391 is gone" in shorter.text


def test_lines_from_the_middle_of_a_huge_text_are_left_out_if_all_of_them_differ():
    words = [f"{chr(103 + at % 20)}{chr(103 + at // 20 % 20)}{chr(103 + at // 400 % 20)}" for at in range(8_000)]
    text = "\n".join(
        f"INFO {words[at % 8_000]} {words[at * 7 % 8_000]} {words[at // 8]} " + "g" * 50 for at in range(20_000)
    )
    shorter = shorten(text, 600_000, len)
    assert len(shorter.text) <= 600_000
    assert GAP_MARK in shorter.text or "lines]" in shorter.text
