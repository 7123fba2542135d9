"""The built page: small, complete, and without registry URLs."""

import gzip
import json
import subprocess
import sys
import zipfile

import pytest

from web.conftest import PAGE, WEB

MOST = 60_000  # bytes of the first visit, gzipped


def test_the_lock_file_names_no_registry():
    lock = json.loads((WEB / "package-lock.json").read_text())
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]
    assert all(package.get("integrity") for name, package in lock["packages"].items() if name)


@pytest.fixture
def built():
    if not PAGE.is_file():
        pytest.skip("the page is not built: make web")
    return PAGE.parent


def test_the_first_visit_is_small_and_self_contained(built):
    index = (built / "index.html").read_text()
    named = [file for file in (built / "assets").iterdir() if f"/assets/{file.name}" in index]
    assert {file.suffix for file in named} == {".js", ".css", ".svg"}
    assert sum(len(gzip.compress(file.read_bytes())) for file in named) < MOST
    assert "http://" not in index
    assert "https://" not in index
    assert "style=" not in index
    assert index.count("<script") == 1


def test_a_wheel_contains_the_page(built, tmp_path):
    pytest.importorskip("hatchling", reason="a wheel is built by hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, cwd=WEB.parent)
    [wheel] = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    for file in built.rglob("*"):
        if file.is_file():
            assert f"brimful/server/static/{file.relative_to(built).as_posix()}" in inside
    assert not [name for name in inside if "node_modules" in name]
    assert not [name for name in inside if name.endswith(".onnx")]  # the weights of `small` are another distribution
