# The few verbs of this project. Python >= 3.11, make and a package registry are all that a fresh clone needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
MINUTES ?= 20
SEED ?=
SEEDS ?= 200
FROM ?= 0

# Locked installs only: everything that runs here is named, with hashes, in requirements/dev.txt.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
DEPENDENCIES := $(VENV)/.dependencies-installed
EDITABLE := $(VENV)/.project-installed

CODE := src tests $(wildcard benchmarks examples)

.DEFAULT_GOAL := help
.PHONY: help setup dev test check bench bench-full peers lock lock-peers chaos simulate simulate-faults
.NOTPARALLEL:

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(EDITABLE) ## make .venv with every locked dependency (instant when nothing changed)

dev: setup ## run everything on this machine: embedded PostgreSQL, server, workers, sample jobs
	@$(BIN)/horarium dev $(ARGS)

check: setup ## formatting, lint, types, layers, spelling: under a minute
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/codespell src docs Makefile .ci $(wildcard *.md benchmarks examples)

test: check ## check, then every test on two processes (ARGS="-k cron" narrows them)
	$(BIN)/python -m pytest -n 2 $(ARGS)

bench: setup ## every benchmark in its short form, as a table (ARGS="fire wave" names some, ARGS=--json)
	@$(BIN)/python -m benchmarks.table $(ARGS)

bench-full: setup ## every benchmark in its full form: hours
	@$(BIN)/python -m benchmarks.table --full $(ARGS)

peers: setup ## install the systems that benchmarks/peers compares with (ARGS="--only oban celery" names some)
	@$(BIN)/python -m benchmarks.peers --install $(ARGS)

simulate: setup ## the whole control plane on a simulated clock, network and store (SEEDS=200 FROM=0 ARGS="--seed 17 --trace")
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) --from $(FROM) $(ARGS)

simulate-faults: setup ## plant the faults that the simulation is known to find, one by one: some of them take minutes
	@$(BIN)/python -m pytest -n 2 tests/simulation/planted_faults.py

chaos: setup ## faults at random on nodes, databases and workers under load (MINUTES=20 SEED=7 ARGS="--every 20")
	@$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

lock: setup ## compile requirements/*.txt from pyproject.toml again (ARGS=--upgrade takes the newest)
	$(PIP_INSTALL) uv
	$(BIN)/uv pip compile $(LOCK_OPTIONS) --python-version 3.11 $(ARGS) pyproject.toml --output-file requirements/runtime.txt
	$(BIN)/uv pip compile $(LOCK_OPTIONS) --python-version 3.11 $(ARGS) --extra dev pyproject.toml --output-file requirements/dev.txt

lock-peers: setup ## compile what benchmarks/peers pins again, after an edit of a file *.in there
	$(PIP_INSTALL) uv
	@cd $(PEERS) && for name in *.in; do \
		python=3.11; test $$name != oban.in || python=3.12; \
		$(CURDIR)/$(BIN)/uv pip compile $(LOCK_OPTIONS) --no-annotate --python-version $$python $(ARGS) $$name \
			--output-file $${name%.in}.txt || exit 1; done

PEERS := benchmarks/peers/requirements

# No index address and no header: the lock names packages and hashes, never where they were fetched from.
LOCK_OPTIONS := --quiet --universal --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed; name one with: make PYTHON=/path/to/python3.x" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(DEPENDENCIES): requirements/dev.txt | $(BIN)/python
	$(PIP_INSTALL) --require-hashes --requirement requirements/dev.txt
	@touch $@

$(EDITABLE): pyproject.toml $(DEPENDENCIES)
	$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@
