"""The windows of the seed documents."""

import pytest

from brimful.models import load_registry

WINDOWS = {
    "gpt-4": 8192,
    "gpt-4-turbo": 128000,
    "gpt-4o": 128000,
    "gpt-3.5-turbo": 16385,
    "claude-3-opus": 200000,
    "claude-3-sonnet": 200000,
    "claude-3-haiku": 200000,
    "claude-3-5-sonnet": 200000,
    "llama3.2:3b": 128000,
    "llama3.1:70b": 128000,
    "deepseek-coder:6.7b": 16000,
    "qwen2.5:7b": 128000,
    "mistral:7b": 32768,
    "grok-beta": 131072,
    "deepseek-chat": 64000,
}


@pytest.mark.parametrize(("name", "window"), WINDOWS.items())
def test_window(name, window):
    assert load_registry(environ={}).resolve(name).window == window


def test_an_unknown_model_has_8192():
    info = load_registry(environ={}).resolve("model-from-nowhere")
    assert (info.window, info.known) == (8192, False)
