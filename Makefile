# make, make test   lint, types and all tests          make demo    read the sample logs, show what is in them
# make bench        how fast, against whom             make clean   back to a fresh clone
#
# Each does its own set-up, in .venv. Another Python: make PYTHON=python3.12 test

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
DEMO   := .demo
LOGS   := $(sort $(wildcard tests/data/*.txt))

.DEFAULT_GOAL := test
.DELETE_ON_ERROR:
.PHONY: test lint types demo bench clean

test: lint types
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile $(ARGS)

lint: $(VENV)/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready-dev
	$(BIN)/mypy --strict perflog

demo: $(VENV)/ready
	@test -n "$(LOGS)" || { echo "No sample logs: tests/data/*.txt matches nothing." >&2; exit 1; }
	@rm -rf $(DEMO)
	$(BIN)/perflog ingest $(LOGS) -o $(DEMO)
	PERFLOG_STORE=$(DEMO) $(BIN)/perflog runs
	@echo
	@echo "The store is $(DEMO). Look around: PERFLOG_STORE=$(DEMO) $(BIN)/perflog show RUN"

bench: $(VENV)/ready-dev
	$(BIN)/python bench/run.py $(ARGS)
	$(BIN)/python bench/traces.py

clean:
	rm -rf $(VENV) $(DEMO) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find perflog tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Set-up. The stamps make the second time quick; a change of what is to be installed makes it run again.
# The build backend comes first and pinned, so that the build is the same everywhere (no isolated environment of its own).
# The distribution was once named perflog. An environment from that time would keep it beside perflog-ml, with entry points
# that name modules of that time, so the rules remove it; -qq says nothing where there is none.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "perflog needs Python 3.11 or later; $(PYTHON) is: `$(PYTHON) --version 2>&1`" >&2; \
	  echo "Name another: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/ready: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) hatchling
	@$(BIN)/python -m pip --disable-pip-version-check uninstall -qq --yes perflog
	$(PIP) --no-build-isolation --editable .
	@touch $@

$(VENV)/ready-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) hatchling
	@$(BIN)/python -m pip --disable-pip-version-check uninstall -qq --yes perflog
	$(PIP) --no-build-isolation --editable '.[dev,train]'
	@touch $@ $(VENV)/ready
