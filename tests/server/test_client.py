"""The TypeScript client and its middleware for the AI SDK, tested in Node against a real server."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
VITEST = WEB / "node_modules" / "vitest" / "vitest.mjs"


def test_the_docs_page_shows_the_example_that_runs():
    page = (ROOT / "docs" / "adapters" / "vercel-ai-sdk.md").read_text(encoding="utf-8")
    assert f"```ts\n{(WEB / 'client' / 'examples' / 'fit.ts').read_text(encoding='utf-8')}```" in page


def test_the_client_works_with_the_server(start):
    node = shutil.which("node")
    if node is None or not VITEST.is_file() or not (WEB / "node_modules" / "ai-7").is_dir():
        pytest.skip("the client's tests need Node and its packages: make web")
    address = str(start(remember={"embedder": "none"}).base_url)
    command = [node, str(VITEST), "run", "--root", str(WEB / "client")]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"BRIMFUL_URL": address, "NO_COLOR": "1"}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
