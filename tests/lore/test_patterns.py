"""Regular expressions from strangers: what they may cost, and that JavaScript's syntax survives the translation."""

import resource
import subprocess
import sys

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from brimful.errors import InvalidValue
from brimful.lore import LoreIndex, activate, check_keywords
from brimful.lore.activation import MAX_SECONDS
from brimful.lore.index import MAX_LOOKBACK
from brimful.lore.patterns import MAX_ALTERNATIVES, MAX_LENGTH, MAX_SIZE, translate
from worlds import activated, entry, run, turns

BOMBS = {
    "a counted repeat": "a{200000000}",
    "nested counted repeats": "(?:a{1000}){100000}",
    "nested beside a repeat from zero": "(?:(?:a{1000}){0,5}){100000}",
    "a repeat of a set": "[ab]{100000000}",
    "a lazy repeat": "(?:ab){90000000}?",
    "a repeat with a range": "(?:ab|c){90000000,90000001}",
    "a repeat behind a set that looks open": "[]](?:a{90000000})",
    "a repeat behind a comment": r"(?#[)a{90000000}",
    "a repeat in a posix class": "[[:alpha:]a{90000000}[:]]{90000000}",
    "a repeat behind an escaped bracket": r"\[a{90000000}",
    "many alternatives": "|".join(f"w{at}" for at in range(60_000)),
    "many repeats": "a{9000}" * 500,
    "a huge set": "[" + "".join(map(chr, range(0x100, 0xD000))) + "]",
    "deep groups": "(?:" * 1_900 + "a" + ")*" * 1_900,
    "many properties": r"\p{L}" * 50_000,
    "a repeat of a property": r"\p{L}{90000000}",
    "a long count": f"a{{{'9' * 3_000}}}",
    "a verbose pattern": "(?x)a{9000 0000}",
    "a fuzzy pattern": "(?:a{e<=90000000}){90000000}",
}
_MEMORY = 200 * 2**20  # bytes that the process may have beyond what it has after its imports
_CHILD = """
import resource, sys
import regex
from brimful.lore import LoreIndex, Turn, activate
from brimful.records import Lorebook, LoreEntry

with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]),) * 2)
indexes = []
for book in sys.stdin.read().split("\\1"):
    keys = (*book.split("\\0"), "good")
    entries = [LoreEntry(id=str(at), lorebook="w", content="x", keys=(key,)) for at, key in enumerate(keys)]
    indexes.append(LoreIndex({"w": Lorebook(id="w")}, entries))
    turn = Turn(id="m", number=1, text="a" * 10_000 + " good")
    found = activate(indexes[-1], [turn], seed="s", count_tokens=lambda _: 1)
    assert str(len(keys) - 1) in [each.entry.id for each in found.activated]
"""


def _search_in_little_memory(*books):
    """Activate the keywords of each book, and a plain one, in a process with little memory; raise if it needs more."""
    child = [sys.executable, "-c", _CHILD, str(_MEMORY)]
    limit = (60, 60)  # seconds of CPU; less than 2 are needed
    done = subprocess.run(
        child,
        input="\1".join(map("\0".join, books)),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),
    )
    assert done.returncode == 0, done.stderr[-500:]


def test_bombs_of_all_kinds_fit_into_little_memory():
    _search_in_little_memory([f"/{bomb}/i" for bomb in BOMBS.values()])


def test_a_process_with_little_memory_dies_of_a_bomb_that_is_compiled():
    limit = f"resource.setrlimit(resource.RLIMIT_AS, ({2 * _MEMORY},) * 2)"
    child = f"import resource, regex\n{limit}\nregex.compile('a{{9000000}}')"
    done = subprocess.run([sys.executable, "-c", child], capture_output=True, check=False)
    assert done.returncode != 0  # so that the test above can fail


def test_many_books_at_the_limit_fit_into_little_memory():
    books = [[f"/(?:{'x' * 18}{book}|[a-f]){{{MAX_SIZE // 30}}}{at}/" for at in range(5)] for book in range(40)]
    _search_in_little_memory(*books)


def test_many_expressions_at_the_limit_fit_into_little_memory():
    _search_in_little_memory([f"/(?:x{at}|[a-f]){{{MAX_SIZE // 20}}}/" for at in range(2_000)])


@pytest.mark.parametrize("name", BOMBS)
def test_no_bomb_is_compiled(name):
    pattern = translate(BOMBS[name])
    assert pattern.text is None or pattern.size <= MAX_SIZE


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("/(?:a{1000}){100000}/", "unrolls to 100,100,000 elements; the limit is 20,000"),
        (f"/{'|'.join('ab' for _ in range(1_200))}/", "has 1,200 alternatives; the limit is 1,000"),
        (f"/{'a' * 5_000}/", "is 5,000 characters long; the limit is 4,000"),
    ],
)
def test_an_expression_over_a_limit_is_refused_by_name(key, reason):
    for refused in (
        entry("e", key),
        entry("e", "plain", secondary=(key,)),
        entry("e", key[1:-1], regex=True),
        entry("e", "plain", content=f"@@exclude_keys {key}\nText."),
    ):
        with pytest.raises(InvalidValue, match=reason) as error:
            check_keywords(refused)
        assert error.value.field == "keys"
        assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ([f"word{number}" for number in range(60_000)], "there are 60,000 keywords; the limit is 1,000"),
        ([f"/word{number}/" for number in range(1_001)], "there are 1,001 keywords; the limit is 1,000"),
        (["a" * 5_000], "is 5,000 characters long; the limit is 4,000"),
    ],
)
def test_keywords_over_a_limit_are_refused_by_name(keys, reason):
    check_keywords(entry("e", *keys[:1_000]) if len(keys) > 1 else entry("e", keys[0][:4_000]))
    with pytest.raises(InvalidValue, match=reason) as error:
        check_keywords(entry("e", *keys))
    assert error.value.field == "keys"
    assert len(str(error.value)) < 200


def test_a_stored_expression_over_a_limit_is_not_used_and_noticed():
    activation = run([entry("bad", "/a{200000000}/", "dragon"), entry("worse", "/b{200000000}/")], "a dragon")
    assert [each.entry.id for each in activation.activated] == ["bad"]
    [notice] = activation.notices
    assert notice.kind == "lore-refused"
    assert "'/a{200000000}/' unrolls to 200,000,000 elements" in notice.text
    assert notice.text.endswith(", and 1 more")


def test_a_long_period_does_not_make_every_turn_read_the_whole_room():
    assert LoreIndex({}, [entry("e", "dragon", sticky=10**9)]).lookback == MAX_LOOKBACK
    assert LoreIndex({}, [entry("e", "dragon", sticky=4, cooldown=6)]).lookback == 25


def test_expressions_stop_when_their_time_is_over_and_continue_in_the_next_turn():
    ticks = iter(range(1_000_000))
    step = MAX_SECONDS / 100
    index = LoreIndex({}, [entry(f"e{at:03}", f"/w{at}[xyz]/") for at in range(300)])
    text = " ".join(f"w{at}x" for at in range(300))

    def activate_once(clock):
        return activate(index, turns(text), seed="s", count_tokens=lambda _: 1, clock=clock)

    first = activate_once(lambda: next(ticks) * step)
    assert 50 < len(first.activated) < 120
    assert [notice.kind for notice in first.notices] == ["lore-timeout"]
    assert len(activate_once(lambda: 0.0).activated) == 300


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        (r"/(?<beast>dragon|wyrm).*\k<beast>/", "a wyrm, another wyrm", True),
        (r"/(?<beast>dragon|wyrm).*\k<beast>/", "a wyrm, a dragon", False),
        (r"/(?i:DRAGON)s/", "dragons", True),
        (r"/x{e<=3}/", "say x{e<=3}", True),  # not fuzzy matching
        (r"/x{,3}y/", "x{,3}y", True),  # JavaScript needs a minimum
        (r"/[[]x/", "[x", True),
        (r"/[]|x/", "x", True),  # an empty set matches nothing
        (r"/a[^\]]b/", "acb", True),
        (r"/\p{Lu}x/u", "Éx", True),
        (r"/[\u{1F409}\u{1F432}]/u", "a 🐲", True),
        (r"/(?R)|x/", "x", False),  # not JavaScript: a plain keyword
        (r"/a{2}b/", "xaab", True),
        (r"/a\{2}b/", "a{2}b", True),
    ],
)
def test_javascript_is_translated(key, text, expected):
    assert bool(activated([entry("e", key, whole_words=False)], text)) is expected


# -- laws ------------------------------------------------------------------------------------------------------------

pieces = st.sampled_from(
    ["a", "b", ".", "|", "(", "(?:", "(?=", ")", "*", "+?", "{2}", "{1,3}", "[ab]", "[^a]", r"\w", r"\]"]
)


@given(st.lists(pieces, max_size=14).map("".join), st.text("ab]", max_size=8))
def test_a_translation_matches_what_the_original_matches(expression, text):
    pattern = translate(expression)
    try:
        original = regex.compile(expression, regex.VERSION0)
    except regex.error:
        return
    assert pattern.text is not None
    assert bool(regex.search(pattern.text, text)) is bool(original.search(text))


@given(st.text("ab|[](){}?^:#<=!\\,0123456789exVRP&-", max_size=40))
def test_every_expression_is_within_the_limits_or_refused(expression):
    pattern = translate(expression)
    if pattern.text is not None:
        assert len(expression) <= MAX_LENGTH
        assert pattern.text.count("|") <= MAX_ALTERNATIVES
        assert pattern.size <= MAX_SIZE
        assert not pattern.excess
