"""MiniLM, installed once by our own command, beside the virtual environment's packages."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

KEPT = Path(sys.prefix) / "brimful-models"


@pytest.fixture(scope="session")
def installed():
    """Return the folder in which MiniLM is installed."""
    KEPT.mkdir(exist_ok=True)
    with (KEPT / "lock").open("w") as lock:  # tests run in several processes: the first one installs
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = (sys.executable, "-m", "brimful", "embeddings", "install", "minilm")
        subprocess.run(command, check=True, env=os.environ | {"BRIMFUL_HOME": str(KEPT)})
    return KEPT


@pytest.fixture
def minilm_home(installed, monkeypatch):
    """Point BRIMFUL_HOME to the installed model."""
    monkeypatch.setenv("BRIMFUL_HOME", str(installed))
    return installed
