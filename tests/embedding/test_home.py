"""Where models are stored on each platform."""

from pathlib import Path

import pytest

from brimful.embedding.minilm import models_dir


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in ("BRIMFUL_HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("platform", "folder"),
    [
        ("linux", Path(".cache/brimful")),
        ("darwin", Path("Library/Caches/brimful")),
        ("win32", Path("AppData/Local/brimful")),
    ],
)
def test_the_user_s_cache(monkeypatch, platform, folder):
    monkeypatch.setattr("sys.platform", platform)
    assert models_dir() == Path.home() / folder


@pytest.mark.parametrize(("platform", "name"), [("linux", "XDG_CACHE_HOME"), ("win32", "LOCALAPPDATA")])
def test_the_cache_directory_of_the_platform(monkeypatch, platform, name):
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv(name, "elsewhere")
    assert models_dir() == Path("elsewhere/brimful")


def test_what_brimful_home_says_goes_first(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "elsewhere")
    monkeypatch.setenv("BRIMFUL_HOME", "~/models")
    assert models_dir() == Path.home() / "models"
