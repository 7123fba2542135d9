from datetime import date
from importlib.resources import files

import pytest

from brimful.counting.chat_template import ChatTemplate, TemplateRefused, template_names
from brimful.errors import InvalidModel

HI = [{"role": "user", "content": "hi"}]


def render(source, messages=HI, **options):
    return ChatTemplate(source, **options).render(messages)


@pytest.mark.parametrize("name", template_names())
def test_every_template_renders_and_always_the_same(name):
    template = ChatTemplate.named(name, bos="<bos>", eos="<eos>")
    rendered = template.render(HI)
    assert "hi" in rendered
    assert rendered == template.render(HI) == ChatTemplate.named(name, bos="<bos>", eos="<eos>").render(HI)


@pytest.mark.parametrize("name", template_names())
def test_every_template_has_its_source_named(name):
    sources = files("brimful.counting").joinpath("templates", "SOURCES.md").read_text(encoding="utf-8")
    assert f"| {name} |" in sources


def test_the_clock_is_never_read():
    today = ChatTemplate.named("gpt-oss", today=date(2026, 11, 15)).render(HI)
    assert "Current date: 2026-11-15" in today
    assert "Current date: 2024-07-26" in ChatTemplate.named("gpt-oss").render(HI)


def test_blocks_are_trimmed_as_the_reference_does():
    assert render("{% if true %}\n  {% set x = 1 %}\n{{ x }}\n{% endif %}\n") == "1\n"


def test_json_is_not_escaped_for_html():
    assert render("{{ messages | tojson }}", [{"role": "user", "content": "<é & 'x'>"}]) == (
        """[{"role": "user", "content": "<é & 'x'>"}]"""
    )
    assert render("{{ [1] | tojson(indent=1) }}") == "[\n 1\n]"


def test_loop_controls_are_known():
    assert render("{% for m in [1, 2, 3] %}{% if m == 2 %}{% break %}{% endif %}{{ m }}{% endfor %}") == "1"


def test_without_an_answer_the_text_ends_with_the_messages():
    assert ChatTemplate.named("chatml").render(HI, answer=False) == "<|im_start|>user\nhi<|im_end|>\n"


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('no such role') }}",
        "{{ messages[7].content + 'x' }}",
        "{{ messages[0].content + 1 }}",
        "{{ messages[0].content.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
    ],
)
def test_templates_that_fail_or_do_forbidden_things_are_refused(source):
    with pytest.raises(TemplateRefused):
        render(source)


def test_a_template_may_be_a_file(tmp_path):
    file = tmp_path / "mine.jinja"
    file.write_text("{{ bos_token }}{{ messages[0].content }}", encoding="utf-8")
    assert ChatTemplate.named(str(file), bos="<s>").render(HI) == "<s>hi"


def test_a_template_that_is_none():
    with pytest.raises(InvalidModel, match="not a valid template"):
        ChatTemplate("{% if %}")
