"""Tokenizers that users bring: Hugging Face's files and GGUF; tests/llama holds the latter against a real llama.cpp."""

import json
import struct
from functools import partial

import pytest
from msgspec import structs
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from brimful import Context, count, counter, fit, replay, window_for
from brimful.core.content import Text
from brimful.core.prompt import Message, Prompt
from brimful.counting import counter_for
from brimful.errors import CountingError, InvalidModel, InvalidValue
from brimful.models import default_registry, resolve
from brimful.models.files import EMPTY_REGISTRY, add_models, parse_models

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
TOKENS = [*LETTERS, "he", "ll", "llo", "hello", "Ġhello", "<|im_start|>", "<|im_end|>", "<tool>"]
MERGES = [("h", "e"), ("l", "l"), ("ll", "o"), ("he", "llo"), ("Ġ", "hello")]
STRING, ARRAY, UINT32, INT32, BOOL = 8, 9, 4, 5, 7


def packed(kind, value):
    match kind, value:
        case 8, _:
            encoded = value.encode()
            return struct.pack("<Q", len(encoded)) + encoded
        case 9, (inner, items):
            return struct.pack("<IQ", inner, len(items)) + b"".join(packed(inner, item) for item in items)
        case _:
            return struct.pack({4: "<I", 5: "<i", 7: "<?"}[kind], value)


def gguf(**changes):
    kinds = [*[1] * (len(TOKENS) - 3), 3, 3, 4]
    fields = {
        "general.architecture": (STRING, "llama"),
        "tokenizer.ggml.model": (STRING, "gpt2"),
        "tokenizer.ggml.pre": (STRING, "qwen2"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, TOKENS)),
        "tokenizer.ggml.token_type": (ARRAY, (INT32, kinds)),
        "tokenizer.ggml.merges": (ARRAY, (STRING, [" ".join(merge) for merge in MERGES])),
        "tokenizer.ggml.eos_token_id": (UINT32, TOKENS.index("<|im_end|>")),
        "tokenizer.ggml.add_bos_token": (BOOL, False),
        "tokenizer.chat_template": (STRING, CHATML),
    }
    fields |= {f"tokenizer.ggml.{name}": field for name, field in changes.items()}
    body = b"".join(
        packed(STRING, name) + struct.pack("<I", kind) + packed(kind, value) for name, (kind, value) in fields.items()
    )
    return struct.pack("<4sIQQ", b"GGUF", 3, 0, len(fields)) + body


@pytest.fixture
def gguf_file(tmp_path):
    file = tmp_path / "mine.gguf"
    file.write_bytes(gguf() + b"the weights")
    return file


@pytest.fixture
def json_file(tmp_path):
    tokenizer = Tokenizer(models.BPE({token: id for id, token in enumerate(TOKENS)}, MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    settings = {"chat_template": CHATML, "eos_token": {"content": "<|im_end|>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    return tmp_path / "tokenizer.json"


@pytest.mark.parametrize("kind", ["gguf_file", "json_file"])
def test_a_file_makes_counts_exact(request, kind):
    file = request.getfixturevalue(kind)
    counted = count("hello hello", model="acme-1", tokenizer=file)
    assert (counted.tokens, counted.basis) == (2, "exact")
    assert counted.tokenizer.startswith(f"{file.name}@")
    assert counter("acme-1", tokenizer=file).text("<|im_end|>").tokens > 1
    context = fit({"messages": [{"role": "user", "content": "hello"}]}, model="acme-1", tokenizer=str(file))
    assert (context.tokens, context.verification.basis) == (1 + len("user") + 1 + 1 + 1 + 1, "exact")


def test_a_record_does_not_make_its_reader_open_files(gguf_file, monkeypatch):
    context = fit({"messages": [{"role": "user", "content": "hello"}]}, model="acme-1", tokenizer=gguf_file)
    record = Context.from_json(context.to_json())
    item = record.decisions[0].id
    for rebuild in (replay, partial(window_for, id=item)):
        with pytest.raises(InvalidValue, match=r"tokenizer: the record names the file '.*mine\.gguf'") as caught:
            rebuild(record)
        assert caught.value.field == "tokenizer"
    assert replay(record, tokenizer=gguf_file) == context
    assert replay(record, model="gpt-4o").tokens > 0
    assert replay(record, model="acme-2", tokenizer=gguf_file).verification.basis == "exact"
    assert window_for(record, item, tokenizer=gguf_file)
    file = gguf_file.with_name("models.toml")
    file.write_text('[models.mine]\nwindow = 4096\ntokenizer = "mine.gguf"')
    monkeypatch.setenv("BRIMFUL_MODELS", str(file))
    default_registry.cache_clear()
    try:
        assert replay(record) == context
    finally:
        monkeypatch.undo()
        default_registry.cache_clear()


def test_a_record_does_not_make_its_reader_open_a_template(tmp_path):
    model = structs.replace(resolve("llama-3.1-8b"), chat_template=str(tmp_path / "a.jinja"))
    (tmp_path / "a.jinja").write_text(CHATML)
    record = fit({"messages": [{"role": "user", "content": "hello"}]}, model=model)
    with pytest.raises(InvalidValue, match=r"chat_template: the record names the file '.*a\.jinja'"):
        replay(record, tokenizer="llama3")
    assert replay(record, model=model) == record


def test_tokens_that_users_added_are_matched_in_any_text(gguf_file):
    assert count("hello<tool>hello", model="acme-1", tokenizer=gguf_file).tokens == 3


def test_a_name_changes_with_the_contents(gguf_file):
    before = count("hello", model="acme-1", tokenizer=gguf_file).tokenizer
    other = gguf_file.with_name("other.gguf")
    other.write_bytes(gguf(pre=(STRING, "gpt-2")))
    assert count("hello", model="acme-1", tokenizer=other).tokenizer.partition("@")[2] != before.partition("@")[2]


def test_a_beginning_is_added_where_the_file_says_so(tmp_path):
    for adds in (False, True):
        file = tmp_path / f"{adds}.gguf"
        file.write_bytes(gguf(add_bos_token=(BOOL, adds), bos_token_id=(UINT32, 0)))
        info = resolve("acme-1").with_tokenizer(str(file))
        prompt = Prompt(model="m", messages=(Message(role="user", parts=(Text(text="hello"),)),))
        assert counter_for(info).prompt(prompt).tokens == 9 + adds


@pytest.mark.parametrize(("pre", "basis"), [("qwen2", "exact"), ("llama-bpe", "exact"), ("tekken", "calibrated")])
def test_counts_of_a_pre_tokenizer_that_was_never_compared_are_not_exact(tmp_path, pre, basis):
    file = tmp_path / "mine.gguf"
    file.write_bytes(gguf(pre=(STRING, pre)))
    assert counter_for(resolve("acme-1").with_tokenizer(str(file))).text("hello").basis == basis


def test_counts_for_another_runtime_are_not_exact(json_file):
    text = f'[models.mine]\nwindow = 4096\nruntime = "llama.cpp"\ntokenizer = "{json_file}"'
    info = add_models(EMPTY_REGISTRY, parse_models(text, "models.toml")).resolve("mine")
    counted = counter_for(info).text("hello hello")
    assert (counted.tokens, counted.basis, counted.margin) == (2, "calibrated", 1)


def test_a_model_file_names_one_next_to_it(gguf_file):
    text = '[models.mine]\nwindow = 4096\ntokenizer = "mine.gguf"'
    entries = parse_models(text, str(gguf_file.with_name("models.toml")))
    info = add_models(EMPTY_REGISTRY, entries).resolve("mine")
    assert (info.runtime, info.overhead, info.chat_template) == ("llama.cpp", "template", None)
    assert counter_for(info).text("hello").tokens == 1


def test_templates_in_other_places(json_file):
    json_file.with_name("chat_template.jinja").write_text("{{ messages[0].content }}")
    messages = [{"role": "user", "content": "hello"}]
    assert fit({"messages": messages}, model="acme-1", tokenizer=json_file).tokens == 1
    json_file.with_name("chat_template.jinja").unlink()
    named = [{"name": "default", "template": "hello"}, {"name": "tool_use", "template": "hello hello"}]
    json_file.with_name("tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    json_file.rename(json_file.with_name("other.json"))
    tools = [{"type": "function", "function": {"name": "f"}}]
    other = json_file.with_name("other.json")
    assert fit({"messages": messages, "tools": tools}, model="acme-1", tokenizer=other).tokens >= 2


def test_a_file_without_a_template(tmp_path):
    file = tmp_path / "bare.gguf"
    file.write_bytes(gguf().replace(b"tokenizer.chat_template", b"tokenizer.chat-template"))
    with pytest.raises(InvalidModel, match=r"bare\.gguf has none"):
        fit({"messages": [{"role": "user", "content": "hello"}]}, model="acme-1", tokenizer=file)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "cannot read"),
        (b"MZ" + bytes(40), "is not a GGUF file"),
        (struct.pack("<4sIQQ", b"GGUF", 1, 0, 0), "version 1"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 0), "no vocabulary"),
        (gguf(model=(STRING, "t5")), "tokenizer 't5'"),
        (gguf(pre=(STRING, "bloom")), "pre-tokenizer 'bloom'"),
    ],
)
def test_other_files_are_refused(tmp_path, contents, message):
    file = tmp_path / "broken.gguf"
    file.write_bytes(contents)
    with pytest.raises(CountingError, match=message):
        count("hello", model="acme-1", tokenizer=file)


def test_damaged_files_are_refused(tmp_path):
    whole = gguf()
    for end in range(0, len(whole), 97):
        file = tmp_path / f"{end}.gguf"
        file.write_bytes(whole[:end])
        with pytest.raises(CountingError):
            count("hello", model="acme-1", tokenizer=file)


@pytest.mark.parametrize("name", ["missing.json", "missing.gguf", "no\0name.json"])
def test_a_missing_file(tmp_path, name):
    with pytest.raises(CountingError, match="cannot read the tokenizer"):
        count("hello", model="acme-1", tokenizer=f"{tmp_path}/{name}")


def test_json_that_is_no_tokenizer(tmp_path):
    file = tmp_path / "tokenizer.json"
    file.write_text("{}")
    with pytest.raises(CountingError):
        count("hello", model="acme-1", tokenizer=file)
