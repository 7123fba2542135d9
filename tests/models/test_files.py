"""Model files add, override and inherit, and every error names the file and the key."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.errors import InvalidModel
from brimful.models import load_registry
from brimful.models.files import parse_models

OWN = load_registry(environ={})


@pytest.fixture
def load(tmp_path):
    def write_and_load(text):
        path = tmp_path / "models.toml"
        path.write_text(text, encoding="utf-8")
        return load_registry(path, environ={})

    return write_and_load


def test_a_field_of_a_known_row_is_overridden(load):
    registry = load('[models."gpt-4o"]\nwindow = 64_000')
    assert registry.resolve("openai/gpt-4o-2024-08-06").window == 64_000
    assert registry.resolve("gpt-4o").max_output == OWN.resolve("gpt-4o").max_output
    assert registry.resolve("gpt-4o-mini") == OWN.resolve("gpt-4o-mini")
    assert OWN.resolve("gpt-4o").window == 128_000


def test_the_output_follows_a_smaller_window(load):
    assert load('[models."gpt-4o"]\nwindow = 1_000').resolve("gpt-4o").max_output == 1_000


def test_one_dated_name_can_stand_apart(load):
    registry = load('[models."gpt-4o-2024-08-06"]\nwindow = 64_000')
    assert registry.resolve("gpt-4o-2024-08-06").window == 64_000
    assert registry.resolve("gpt-4o").window == 128_000


def test_a_row_like_another(load, tmp_path):
    info = load('[models.mine]\nlike = "openai/GPT-4o"\nwindow = 9_000\naliases = ["ours"]').resolve("azure/ours")
    assert (info.window, info.tokenizer, info.image_rule) == (9_000, "o200k_base", "openai-tiles-85-170")
    assert (info.id, info.canonical, info.known) == ("azure/ours", "mine", True)
    assert info.source == str(tmp_path / "models.toml")


def test_rows_like_each_other_in_any_order(load):
    registry = load(
        '[models.c]\nlike = "b"\n[models.b]\nlike = "a"\nwindow = 7\n[models.a]\nwindow = 900\nwire = "text"'
    )
    assert [registry.resolve(name).window for name in "abc"] == [900, 7, 7]
    assert registry.resolve("c").wire == "text"


def test_a_new_row_needs_only_a_window(load):
    registry = load('[models."acme-1"]\nwindow = 4_000\n[models."acme:7b"]\nwindow = 5_000')
    acme, local = registry.resolve("acme-1"), registry.resolve("acme:7b")
    assert (acme.window, acme.max_output, acme.wire, acme.known) == (4_000, 4_000, "openai", True)
    assert acme.prior
    assert (local.window, local.wire) == (5_000, "ollama")


@pytest.mark.parametrize(
    "name", ["acme/Large", "ollama/acme", "gpt-35-turbo", "us.anthropic.acme-v1:0", "ft:gpt-4o:o::i"]
)
def test_a_row_of_any_name_is_found_by_it(load, name):
    info = load(f'[models."{name}"]\nwindow = 999\nwire = "text"').resolve(name)
    assert (info.window, info.wire, info.canonical) == (999, "text", name)


def test_an_alias_may_take_over_a_known_name(load):
    registry = load('[models.mine]\nwindow = 4_000\naliases = ["gpt-4o"]')
    assert registry.canonical("gpt-4o") == "mine"


def test_a_tokenizer_and_a_prior_exclude_each_other(load):
    prior = 'prior = { tokenizer = "llama3", factor = 1.1, margin = 0.2 }'
    registry = load(f'[models.a]\nlike = "gpt-4o"\n{prior}\n[models.b]\nlike = "claude-3-opus"\ntokenizer = "llama3"')
    assert (registry.resolve("a").tokenizer, registry.resolve("a").prior.factor) == (None, 1.1)
    assert (registry.resolve("b").tokenizer, registry.resolve("b").prior) == ("llama3", None)


def test_families_and_defaults(load):
    registry = load(
        'provider = "acme"\n[family.a]\nwindow = 900\n[family.a.models]\na-1 = {}\na-2 = { window = 800 }\n'
        '[family.b]\nextends = "a"\nmax_output = 100\n[family.b.models]\nb-1 = { ollama = ["b:1b", "b"] }',
    )
    assert [registry.resolve(name).window for name in ("a-1", "a-2", "b-1")] == [900, 800, 900]
    assert (registry.resolve("b").canonical, registry.resolve("b").wire) == ("b:1b", "ollama")
    assert (registry.resolve("b:1b").max_output, registry.resolve("b-1").provider) == (100, "acme")


def test_an_empty_text_takes_away_what_is_inherited(load):
    assert load('[models.a]\nlike = "gpt-4o"\nimage_rule = ""').resolve("a").image_rule is None


def test_the_environment_names_the_file_and_an_argument_wins(tmp_path):
    for name, window in (("env.toml", 1_111), ("arg.toml", 2_222)):
        (tmp_path / name).write_text(f"[models.mine]\nwindow = {window}")
    environ = {"BRIMFUL_MODELS": str(tmp_path / "env.toml")}
    assert load_registry(environ=environ).resolve("mine").window == 1_111
    assert load_registry(tmp_path / "arg.toml", environ).resolve("mine").window == 2_222
    assert not load_registry(environ={"BRIMFUL_MODELS": ""}).resolve("mine").known


def test_the_environment_of_the_process_is_read_at_the_edge(tmp_path, monkeypatch):
    (tmp_path / "models.toml").write_text("[models.mine]\nwindow = 1_111")
    monkeypatch.setenv("BRIMFUL_MODELS", str(tmp_path / "models.toml"))
    assert load_registry().resolve("mine").window == 1_111


MISTAKES = {
    '[models.a]\nwindow = "8192"': "models.a.window",
    "[models.a]\nwindow = 8192.5": "models.a.window",
    "[models.a]\nwindow = true": "models.a.window",
    "[models.a]\nwindow = nan": "models.a.window",
    "[models.a]\nwindow = -1": "models.a.window",
    "[models.a]\nwindow = 0": "models.a.window",
    "[models.a]\nwindow = 10_000_000_000": "models.a.window",
    "[models.a]\nmax_output = 5": "models.a.window",
    "[models.a]\nwindow = 5\nmax_output = 6": "models.a.max_output",
    "[models.a]\nwindow = 5\nwindwo = 6": "models.a.windwo",
    '[models.a]\nwindow = 5\nwire = "telegraph"': "models.a.wire",
    "[models.a]\nwindow = 5\naliases = [1]": "models.a.aliases[0]",
    '[models.a]\nwindow = 5\naliases = [""]': "models.a.aliases[0]",
    "[models.a]\nwindow = 5\naliases = 'b'": "models.a.aliases",
    '[models.a]\nwindow = 5\noverhead = "template"': "models.a.chat_template",
    '[models.a]\nwindow = 5\nas_of = "yesterday"': "models.a.as_of",
    '[models.a]\nwindow = 5\nprior = { tokenizer = "x", factor = nan, margin = 0.1 }': "models.a.prior.factor",
    '[models.a]\nwindow = 5\nprior = { tokenizer = "x", factor = inf, margin = 0.1 }': "models.a.prior.factor",
    '[models.a]\nwindow = 5\nprior = { tokenizer = "x", factor = -1, margin = 0.1 }': "models.a.prior.factor",
    '[models.a]\nwindow = 5\nprior = { tokenizer = "x", factor = 1, margin = nan }': "models.a.prior.margin",
    '[models.a]\nwindow = 5\nprior = { tokenizer = "x" }': "models.a.prior",
    '[models.a]\nwindow = 5\nprior = { tokenizer = "x", factor = 1, margin = 0, z = 1 }': "models.a.prior.z",
    "[models.a]\nwindow = 5\ncache = { minimum_tokens = -1 }": "models.a.cache.minimum_tokens",
    "[models.a]\nwindow = 5\ncache = { minimum_tokens = 1, read = 0 }": "models.a.cache.read",
    '[models.a]\nlike = "nobody"': "models.a.like",
    "[models.a]\nlike = 1": "models.a.like",
    '[models.a]\nlike = "a"': "models.a.like",
    '[models.a]\nlike = "b"\n[models.b]\nlike = "c"\n[models.c]\nlike = "a"': "models.a.like",
    "[models.a]\nwindow = 5\n[models.A]\nwindow = 6": "models.A",
    '[models.a]\nwindow = 5\n[models.b]\nwindow = 6\naliases = ["a"]': "models.b",
    '[models.a]\nwindow = 5\ntokenizer = "x"\nprior = { tokenizer = "x", factor = 1, margin = 0 }': "models.a.prior",
    "[models.a]\nwindow = 1" + "0" * 30: "models.a.window",
    "[models.a]\nwindow = 1" + "0" * 5_000: "",
    '[models.a]\nwindow = 5\nsource = ""': "models.a.source",
    "models = 1": "models",
    "[models]\na = 1": "models.a",
    "family = 1": "family",
    "[family]\na = 1": "family.a",
    "[family.a]\nmodels = 1": "family.a.models",
    "[family.a]\nwindow = 0": "family.a.window",
    '[family.a]\nextends = "b"': "family.a.extends",
    "[family.a]\nextends = 1": "family.a.extends",
    "[family.a.models]\nx = { window = 0 }": "family.a.models.x.window",
    "windwo = 1": "windwo",
    "window = 'x'": "window",
    "this is no TOML": "",
    "[models.a]\nwindow = 1\n[models.a]\nwindow = 2": "",
    "a = " + "[" * 5_000: "",
}


@pytest.mark.parametrize(("text", "key"), MISTAKES.items(), ids=range(len(MISTAKES)))
def test_a_mistake_is_named(load, tmp_path, text, key):
    with pytest.raises(InvalidModel) as raised:
        load(text)
    error = raised.value
    assert (error.file, error.key) == (str(tmp_path / "models.toml"), key)
    assert error.reason
    assert error.file in str(error)


def test_a_circle_is_shown(load):
    with pytest.raises(InvalidModel, match="a → b → a"):
        load('[models.a]\nlike = "b"\n[models.b]\nlike = "a"')


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing.toml", "No such file"), (".", "directory"), ("latin.toml", "UTF-8"), ("nul\0.toml", "cannot be read")],
)
def test_a_file_that_cannot_be_read(tmp_path, name, reason):
    (tmp_path / "latin.toml").write_bytes(b'[models.a]\nprovider = "\xe9"')
    with pytest.raises(InvalidModel, match=reason) as raised:
        load_registry(tmp_path / name, environ={})
    assert raised.value.file == str(tmp_path / name)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
KEYS = st.sampled_from(["window", "like", "prior", "aliases", "as_of", "models", "family", "extends", "a", "b"])


def _toml(value):
    match value:
        case dict():
            return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case _:
            return '"a"'


VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_whatever_a_file_says_only_invalid_model_is_raised(data):
    text = "\n".join(f"{key} = {_toml(value)}" for key, value in data.items())
    with contextlib.suppress(InvalidModel):
        parse_models(text, "models.toml")
