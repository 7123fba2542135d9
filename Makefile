# Everything runs in its own virtual environment: a bare clone on a bare machine needs only Python 3.11 and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test check bench format clean

demo: $(VENV)/.base
	$(BIN)/python examples/demo.py

test: check
	$(BIN)/python tests/run_all.py

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/test_docs.py

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run_all.py

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/.pip: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip
	touch $@

$(VENV)/.base: $(VENV)/.pip pyproject.toml
	$(PIP) install --constraint constraints.txt --editable '.[prices]'
	touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PIP) install --constraint constraints.txt --group test --group check
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PIP) install --constraint constraints.txt --group bench
	touch $@

clean:
	rm -rf $(VENV) .cache .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
