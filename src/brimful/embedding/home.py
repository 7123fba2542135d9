"""Where models that were installed are kept."""

import os
import sys
from pathlib import Path
from typing import Final

ENVIRONMENT_KEY: Final = "BRIMFUL_HOME"


def home() -> Path:
    """Return the folder: what BRIMFUL_HOME says, or the user's cache on this platform."""
    if named := os.environ.get(ENVIRONMENT_KEY):
        return Path(named).expanduser()
    return _cache(sys.platform) / "brimful"


def _cache(platform: str) -> Path:
    if platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
