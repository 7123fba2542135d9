import msgspec
import pytest

import brimful
from brimful.core.policy import Policy, Pool, with_searched_history
from brimful.policies import ENVIRONMENT_KEYS, Overrides, load_policy, policy_names

VALID = """
name = "mine"
[[pools]]
name = "all"
kinds = ["*"]
"""
NEED = "contiguous = true\nneed = { newest = 0.5, decay = 2.0 }"


@pytest.mark.parametrize("name", policy_names())
def test_every_policy_that_comes_along_is_valid_and_described(name):
    policy = load_policy(name)
    assert policy.name == name
    assert policy.description


def test_a_policy_of_ones_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(VALID)
    assert load_policy(file).name == load_policy(str(file)).name == "mine"


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("name = 1", "name", "Expected `str`, got `int`"),
        ('name = "x"', "", "missing required field `pools`"),
        ('name = "x"\npools = []', "pools", "at least one pool"),
        (VALID + "unknown = 1", "pools.all", "unknown field `unknown`"),
        ("typo = 1\n" + VALID, "", "unknown field `typo`"),
        (VALID + 'order = "oldest"', "pools.all.order", "Invalid enum value"),
        (VALID + "min_items = -1", "pools.all.min_items", "at least 0"),
        (VALID + "max_items = 0", "pools.all.max_items", "at least 1"),
        (VALID + "min_items = 5\nmax_items = 4", "pools.all.max_items", "at least 5"),
        (VALID + "limit = { share = 1.5 }", "pools.all.limit.share", "from 0 to 1"),
        (VALID + "limit = { share = nan }", "pools.all.limit.share", "from 0 to 1"),
        (VALID + "limit = { tokens = -5 }", "pools.all.limit.tokens", "at least 0"),
        (VALID + "limit = { subtract = -5 }", "pools.all.limit.subtract", "at least 0"),
        (VALID + "limit = { min_ratio = 2.0 }", "pools.all.limit", "go together"),
        (VALID + 'limit = { min_ratio = 2.0, ratio_to = "none" }', "pools.all.limit.ratio_to", "no earlier pool"),
        (VALID + 'limit = { min_ratio = -2.0, ratio_to = "none" }', "pools.all.limit.min_ratio", "from 0"),
        (VALID + "contiguous = true\noptimize = true", "pools.all.optimize", "combined with contiguous"),
        (VALID + "low_water = 0.5", "pools.all.low_water", "contiguous"),
        (VALID + "contiguous = true\nledger = {}", "pools.all.ledger", "combined with contiguous"),
        (VALID + "ledger = { newest = 1.5 }", "pools.all.ledger.newest", "from 0 to 1"),
        (VALID + "ledger = { clear_at_least = -1.0 }", "pools.all.ledger.clear_at_least", "from 0"),
        (VALID + 'ledger = { clear_at_least = "much" }', "pools.all.ledger.clear_at_least", "much"),
        (VALID + "contiguous = true\nlow_water = 1.5", "pools.all.low_water", "from 0 to 1"),
        (VALID + "need = { newest = 0.5, decay = 2.0 }", "pools.all.need", "contiguous"),
        (VALID + "contiguous = true\nneed = { newest = 1.5, decay = 2.0 }", "pools.all.need.newest", "from 0 to 0.999"),
        (VALID + "contiguous = true\nneed = { newest = 0.5 }", "pools.all.need", "missing required field `decay`"),
        (VALID + f"{NEED}\n[[pools]]\nname = 'b'\nkinds = ['a']\n{NEED}", "pools.b.need", "is for one pool only"),
        (VALID + NEED.replace("0.5", "nan"), "pools.all.need.newest", "from 0 to 0.999"),
        (VALID + NEED.replace("2.0", "-1"), "pools.all.need.decay", "from 0 to 100"),
        (VALID + NEED.replace("2.0", "2.0, own = inf"), "pools.all.need.own", "from 0 to 100"),
        (VALID + NEED.replace("2.0", "2.0, min_share = 1.1"), "pools.all.need.min_share", "from 0 to 1"),
        (VALID + NEED.replace("2.0", "2.0, reread = -1"), "pools.all.need.reread", "from 0 to 1e+06"),
        (VALID + "contiguous = true\nneed = 1", "pools.all.need", "Expected `object | null`, got `int`"),
        ("price = -1.0\n" + VALID, "price", "from 0 to"),
        ("price = nan\n" + VALID, "price", "from 0 to"),
        ("price = 1e7\n" + VALID, "price", "from 0 to"),
        ("price = true\n" + VALID, "price", "Expected `float`, got `bool`"),
        ("min_relevance = 1.1\n" + VALID, "min_relevance", "from 0 to 1"),
        ("min_memory_relevance = 1.1\n" + VALID, "min_memory_relevance", "from 0 to 1"),
        ("min_best_relevance = 1.1\n" + VALID, "min_best_relevance", "from 0 to 1"),
        ("min_total_relevance = 1.1\n" + VALID, "min_total_relevance", "from 0 to 1"),
        ("min_share_of_best = -1.0\n" + VALID, "min_share_of_best", "from 0 to 1"),
        (VALID + '\n[layout]\ntimezone = "Mars/Base"\n', "layout.timezone", "is not a time zone: 'Mars/Base'"),
        (VALID + "free = { kinds = [] }", "pools.all.free.kinds", "at least one kind"),
        (VALID + 'free = { kinds = ["*"], tokens = -1 }', "pools.all.free.tokens", "at least 0"),
        ('price = "cheap"\n' + VALID, "price", "must be a number or one of thrifty, balanced, full, not 'cheap'"),
        (VALID + '[[pools]]\nname = "all"\nkinds = ["a"]', "pools.all", "two pools"),
        (VALID + '[[pools]]\nname = ""\nkinds = ["a"]', "pools", "needs a name"),
        (VALID + '[[pools]]\nname = "b"\nkinds = []', "pools.b.kinds", "at least one kind"),
        ("trim = [{}]\n" + VALID, "trim[0]", "either"),
        ('trim = [{ drop = "none" }]\n' + VALID, "trim[0]", "no pool is named 'none'"),
        ('trim = [{ drop = "all", summarize = "all" }]\n' + VALID, "trim[0]", "either"),
        (VALID + "[weights]\npriority = -0.1", "weights.priority", "from 0 to 1"),
        (VALID + "[weights]\nrecency_days = 0.0", "weights.recency_days", "from 1e-06"),
        (VALID + "[margin]\nshare = 2.0", "margin.share", "from 0 to 1"),
        (VALID + "[margin]\ntokens = -2", "margin.tokens", "at least 0"),
        (VALID + "[completion]\ntokens = 0", "completion.tokens", "at least 1"),
        (VALID + "[completion]\nmax_share = 1.1", "completion.max_share", "from 0 to 1"),
        ("total_tokens = 0\n" + VALID, "total_tokens", "at least 1"),
        ("= broken", "", "is not valid TOML"),
    ],
)
def test_errors_name_file_key_and_reason(tmp_path, text, key, reason):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(brimful.errors.InvalidPolicy) as caught:
        load_policy(file)
    assert caught.value.file == str(file)
    assert caught.value.key == key
    assert reason in caught.value.reason
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("policy", {"name": None}),
        ("policy", {"name": ["default"]}),
        ("overrides", {"overrides": [("counting", "exact")]}),
        ("overrides", {"overrides": "counting=exact"}),
        ("overrides: a key", {"overrides": {1: 2}}),
        ("default.toml", {"overrides": {"description": "\ud800"}}),
        ("\ufffd.toml", {"name": "\ud800.toml"}),
        ("a\0.toml", {"name": "a\0.toml"}),
    ],
)
def test_invalid_policies_are_named(field, arguments):
    with pytest.raises(brimful.errors.InvalidValue) as caught:
        load_policy(**arguments)
    assert caught.value.field == field


def test_a_policy_that_no_record_could_hold_is_refused():
    odd = msgspec.structs.replace(load_policy("default"), description="\ud800")
    with pytest.raises(brimful.errors.InvalidPolicy, match="cannot be serialized"):
        load_policy(odd)


def test_files_that_cannot_be_read(tmp_path):
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing.toml", tmp_path / "folder.toml", binary):
        if path.name == "folder.toml":
            path.mkdir()
        with pytest.raises(brimful.errors.InvalidPolicy, match="cannot be read"):
            load_policy(path)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(brimful.errors.UnknownPolicy, match="auction, default, fit, pools, split, window"):
        load_policy("defualt")


def test_the_environment_sets_the_seeds_limits():
    environ = {
        "BRIMFUL_CONTEXT_TOTAL_TOKEN_LIMIT": "100,000",
        "BRIMFUL_CONTEXT_RECENT_HISTORY_TOKEN_BUDGET": "70_000",
        "BRIMFUL_CONTEXT_RAG_TOKEN_BUDGET": "30000",
        "BRIMFUL_CONTEXT_COMPLETION_TOKENS": "500",
        "BRIMFUL_CONTEXT_PRICE": "0.5",
    }
    assert environ.keys() == {name for name in ENVIRONMENT_KEYS if name.startswith("BRIMFUL_")}
    policy = load_policy("split", environ=environ)
    assert policy.total_tokens == 100_000
    assert policy.pool("recent").limit.tokens == 70_000
    assert policy.pool("related").limit.tokens == 30_000
    assert policy.completion.tokens == 500


def test_the_environment_is_read_by_assemble(monkeypatch):
    monkeypatch.setenv("BRIMFUL_CONTEXT_TOTAL_TOKEN_LIMIT", "5000")
    assert brimful.budget(model="gpt-4o", policy="split").hard_limit == 5000


@pytest.mark.parametrize("value", ["many", "-5", "", "1e5"])
def test_a_wrong_number_in_the_environment_is_named(value):
    with pytest.raises(brimful.errors.InvalidPolicy, match="BRIMFUL_CONTEXT_TOTAL_TOKEN_LIMIT"):
        load_policy("split", environ={"BRIMFUL_CONTEXT_TOTAL_TOKEN_LIMIT": value})


def test_a_policy_value_is_used_as_it_is():
    mine = load_policy("split", overrides={"total_tokens": 77})
    assert load_policy(mine, environ={"BRIMFUL_CONTEXT_TOTAL_TOKEN_LIMIT": "5000"}) is mine


def test_overrides_win_over_the_environment():
    environ = {"BRIMFUL_CONTEXT_TOTAL_TOKEN_LIMIT": "5000"}
    assert load_policy("split", environ=environ, overrides={"total_tokens": 77}).total_tokens == 77


@pytest.mark.parametrize(
    "key",
    [
        "nope",
        "pools.nope.max_items",
        "pools.recent.nope",
        "name.deeper",
        "name.x.y",
        "pools.0.max_items",
        "weights.nope",
    ],
)
def test_an_override_of_nothing_is_refused(key):
    with pytest.raises(brimful.errors.InvalidPolicy):
        load_policy("split", overrides={key: 1})


def test_a_persona_changes_share_min_max_and_method():
    persona = Overrides(budget_share=0.9, min_messages=10, max_messages=50, counting="approximate")
    policy = load_policy("window", overrides=persona.keys())
    recent = policy.pool("recent")
    assert (recent.limit.share, recent.min_items, recent.max_items, policy.counting) == (0.9, 10, 50, "approximate")
    budget = brimful.budget(model="gpt-4", policy="window", completion=3000, overrides=persona)
    assert budget.limit("recent") == int((8192 - 3000 - 500) * 0.9)
    history = load_policy("auction", overrides=persona.keys()).pool("all").history
    assert (history.share, history.min_items, history.max_items) == (0.9, 10, 50)
    with pytest.raises(brimful.errors.InvalidPolicy, match="has no such key or pool") as caught:
        load_policy("auction", overrides={"counting": "exact", "pools.recent.limit.tokens": 50})
    assert caught.value.key == "pools.recent.limit.tokens"


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (Overrides(budget_share=1.5), "pools.all.history.share"),
        (Overrides(min_messages=-1), "pools.all.history.min_items"),
        (Overrides(min_messages=5, max_messages=4), "pools.all.history.max_items"),
    ],
)
def test_wrong_limits_for_history_are_refused(overrides, key):
    with pytest.raises(brimful.errors.InvalidPolicy) as caught:
        load_policy("auction", overrides=overrides.keys())
    assert caught.value.key == key


def test_a_policy_without_a_pool_for_messages_has_no_limits_for_them():
    alone = Policy(name="notes", pools=(Pool(name="notes", kinds=("note",)),))
    assert alone.pool_for_kind("message-recent") is None
    with pytest.raises(brimful.errors.InvalidPolicy, match="has no such key or pool"):
        load_policy(alone, overrides={"pools.recent.max_items": 5})


def test_a_price_has_a_name_or_a_number():
    assert load_policy("default", overrides={"price": "full"}).price == 0.0
    balanced, thrifty = (load_policy("default", overrides={"price": name}).price for name in ("balanced", "thrifty"))
    assert 0.0 < balanced < thrifty
    assert load_policy("default", overrides=Overrides(price="thrifty").keys()).price == thrifty
    assert load_policy("default", environ={"BRIMFUL_CONTEXT_PRICE": "thrifty"}).price == thrifty
    assert load_policy("default", environ={"BRIMFUL_CONTEXT_PRICE": "0.25"}).price == 0.25
    with pytest.raises(brimful.errors.InvalidPolicy, match="BRIMFUL_CONTEXT_PRICE: price: must be a number or one of"):
        load_policy("default", environ={"BRIMFUL_CONTEXT_PRICE": "cheap"})


def test_overrides_do_not_change_the_values_that_were_passed():
    limit = {"share": 0.5}
    load_policy("default", overrides={"pools.recent.limit": limit, "pools.recent.limit.share": 0.3})
    assert limit == {"share": 0.5}


def test_searched_history_takes_a_share_and_borrows_nothing():
    default = load_policy("default")
    recent = with_searched_history(default).pool("recent")
    assert (recent.limit.share, recent.borrow) == (0.45, False)
    assert with_searched_history(default).pool("related") is default.pool("related")
    small = load_policy("default", overrides={"pools.recent.limit.share": 0.2})
    assert with_searched_history(small).pool("recent").limit.share == 0.2
    unlimited = load_policy("default", overrides={"pools.recent.limit": {}})
    assert with_searched_history(unlimited).pool("recent").limit.share == 0.45
    full = load_policy("default", overrides={"price": "full"})
    assert with_searched_history(full) is full
