"""MiniLM, installed once with our own command next to the virtual environment's packages."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

MODELS_PATH = Path(sys.prefix) / "brimful-models"


@pytest.fixture(scope="session")
def installed():
    """Return the folder in which MiniLM is installed."""
    MODELS_PATH.mkdir(exist_ok=True)
    with (MODELS_PATH / "lock").open("w") as lock:  # tests run in several processes: the first one installs
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = (sys.executable, "-m", "brimful", "embeddings", "install", "minilm")
        subprocess.run(command, check=True, env=os.environ | {"BRIMFUL_HOME": str(MODELS_PATH)})
    return MODELS_PATH


@pytest.fixture
def minilm_home(installed, monkeypatch):
    """Point BRIMFUL_HOME to the installed model."""
    monkeypatch.setenv("BRIMFUL_HOME", str(installed))
    return installed
