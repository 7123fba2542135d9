"""Take the screenshots of the inspector in docs/images, with the data of examples/inspector.py."""

import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "examples"))

import inspector  # type: ignore[import-not-found]  # noqa: E402 - of the examples

SIZE = {"width": 1200, "height": 720}


def take(page: Page, address: str, context: str) -> None:
    """Take one screenshot of each page that the documentation shows."""
    shots = {
        "inspector": f"/contexts/{context}",
        "inspector-why": f"/contexts/{context}?item={inspector.FORGOTTEN}",
        "inspector-window": f"/contexts/{context}?tab=window",
        "inspector-timeline": f"/rooms/kitchen/timeline?context={context}",
        "inspector-session": "/sessions",
    }
    for name, path in shots.items():
        page.goto(address + path)
        page.get_by_role("heading", level=1).wait_for()
        page.wait_for_load_state("networkidle")
        expect(page.locator(".skeleton")).to_have_count(0, timeout=30_000)
        if name == "inspector-session":
            page.locator(".context-link").click()
            page.get_by_role("heading", name="Cache misses").wait_for()
        page.screenshot(path=IMAGES / f"{name}.png")


def main() -> None:
    """Fill a store, serve it, and visit it with a browser."""
    browser_path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if browser_path is None:
        sys.exit("Screenshots need chromium: apt-get install chromium-headless-shell")
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/companion.db"
        context = asyncio.run(inspector.live(url)).id
        inspector.agent_session(Path(folder))
        command = [sys.executable, "-u", "-m", "brimful", "serve", "--db", url, "--sessions", "--listen", "127.0.0.1:0"]
        environment = inspector.environment(Path(folder))
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:  # noqa: S603
            try:
                line = server.stdout.readline() if server.stdout else ""
                address = re.search(r"http://[\d.:]+", line)
                if address is None:
                    sys.exit(f"The server did not start: {line}")
                with sync_playwright() as playwright:
                    browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
                    take(browser.new_page(viewport=SIZE, color_scheme="light"), address[0], context)  # type: ignore[arg-type]
                    browser.close()
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
