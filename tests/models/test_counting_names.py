"""Counting knows every tokenizer, template and rule that the registry names."""

from importlib.resources import files

import pytest

from brimful.counting import MEDIA_RULES, tokenizer_names
from brimful.counting.overheads import get_overheads
from brimful.models import load_registry

ROWS = tuple(load_registry(environ={}))


def used(field):
    return sorted({value for row in ROWS if (value := getattr(row, field))})


@pytest.mark.parametrize("name", used("tokenizer"))
def test_tokenizer(name):
    assert name in tokenizer_names()


@pytest.mark.parametrize("name", sorted({row.prior.tokenizer for row in ROWS if row.prior}))
def test_tokenizer_of_a_prior(name):
    assert name in tokenizer_names()


@pytest.mark.parametrize("name", [name for name in used("overhead") if name != "template"])
def test_overhead(name):
    assert get_overheads(name).message >= 0


@pytest.mark.parametrize("name", used("chat_template"))
def test_chat_template(name):
    assert files("brimful.counting").joinpath("templates", f"{name}.jinja").is_file()


@pytest.mark.parametrize("name", used("chat_template"))
def test_a_row_alternates_where_its_template_insists(name):
    template = files("brimful.counting").joinpath("templates", f"{name}.jinja").read_text(encoding="utf-8")
    insists = "must alternate" in template
    assert {row.alternate for row in ROWS if row.chat_template == name} == {insists}


@pytest.mark.parametrize("name", used("chat_template"))
def test_a_row_takes_system_messages_unless_its_template_refuses_them(name):
    template = files("brimful.counting").joinpath("templates", f"{name}.jinja").read_text(encoding="utf-8")
    refuses = "System role not supported" in template
    assert {row.system_role for row in ROWS if row.chat_template == name} == {not refuses}


@pytest.mark.parametrize("row", [row for row in ROWS if row.chat_template], ids=lambda row: row.id)
def test_a_row_has_short_ids_where_its_template_insists(row):
    template = files("brimful.counting").joinpath("templates", f"{row.chat_template}.jinja").read_text(encoding="utf-8")
    assert row.short_ids or "with length 9" not in template


@pytest.mark.parametrize("modality", ["image", "audio", "video"])
def test_rules_of_media(modality):
    assert set(used(f"{modality}_rule")) <= set(getattr(MEDIA_RULES, modality))
