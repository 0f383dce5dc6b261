# make, make test   lint, types and all tests          make demo    two screens and a page of runs that ship with it
# make fix          layout and simple lint, corrected  make bench   how fast, against whom
# make docs         the site, into build/site          make hooks   lint before each commit
# make study        how often a comparison is wrong     make words   words that the field does not use: none more often
# make coverage     which lines the tests run          make clean   back to a fresh clone
# make fuzz         damaged inputs, for each reader    make fuzz FUZZ_SECONDS=600: so long for each of them
# make film         the moving picture of the README    make mutants MUTANTS_MINUTES=30: what no near test notices
#
# Each does its own set-up, in .venv. Another Python: make PYTHON=python3.12 test
# pip takes its settings from the environment: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make test
# installs the CPU build of PyTorch on Linux, which is smaller by 3 GB.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
DEMO   := .demo
# A file stays on one worker, which keeps what its tests share. conftest.py puts the slow files first.
PARALLEL := --numprocesses auto --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := test
.DELETE_ON_ERROR:
.PHONY: test lint fix types coverage words docs hooks demo film bench study fuzz mutants clean

test: lint types
	$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

lint: $(VENV)/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

fix: $(VENV)/ready-dev
	$(BIN)/ruff check --fix .; status=$$?; $(BIN)/ruff format . && exit $$status

types: $(VENV)/ready-dev
	$(BIN)/mypy --num-workers auto

# --cov takes its settings from pyproject.toml. Tests of the memory that something takes are slower here.
coverage: $(VENV)/ready-dev
	@mkdir -p build
	$(BIN)/python -m pytest $(PARALLEL) --cov --cov-report term --cov-report html --cov-report xml $(ARGS)
	@echo "Line by line: build/coverage/index.html"

# The list and its limits are in the script.
words: $(VENV)/ready
	$(BIN)/python bench/words.py

docs: $(VENV)/ready-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site: build/site/index.html. While you write: $(BIN)/mkdocs serve"

hooks: $(VENV)/ready-dev
	$(BIN)/pre-commit install

demo: $(VENV)/ready
	@mkdir -p $(DEMO)
	@$(BIN)/perflog demo -o $(DEMO)/demo.html

film: $(VENV)/ready
	$(BIN)/python docs/cast.py

# PERFLOG_BENCH_HTA, PERFLOG_BENCH_TRACELENS, PERFLOG_BENCH_NSYS_AI: Pythons with these tools, which are measured too.
bench: $(VENV)/ready-dev
	$(BIN)/python bench/run.py $(ARGS)
	$(BIN)/python bench/traces.py
	$(BIN)/python bench/comparisons.py
	$(BIN)/python bench/long_runs.py
	$(BIN)/python bench/pages.py
	$(BIN)/python bench/folders.py

# The summary is that of docs/study.md; the tables of all runs are in build/study.md.
study: $(VENV)/ready-dev
	$(BIN)/python bench/study.py $(ARGS)

# New damaged inputs in each run. Those that failed are tried first in the next one, and `make test` tries a few.
FUZZ_SECONDS ?= 60

fuzz: $(VENV)/ready-dev
	HYPOTHESIS_PROFILE=fuzz FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest --numprocesses auto -rP tests/fuzz $(ARGS)

# A sample of small changes of parsing, readers, metrics and statistics, and only the tests that are near to each.
MUTANTS_MINUTES ?= 10

mutants: $(VENV)/ready-dev
	$(PIP) mutmut
	nice $(BIN)/python bench/mutants.py --minutes $(MUTANTS_MINUTES) $(ARGS)

clean:
	rm -rf $(VENV) $(DEMO) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -f .coverage .coverage.*
	find perflog tests bench docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Set-up. The stamps make the second time quick; a change of what is to be installed makes it run again.
# The build backend comes first and pinned, so that the build is the same everywhere (no isolated environment of its own).

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "perflog needs Python 3.11 or later; $(PYTHON) is: `$(PYTHON) --version 2>&1`" >&2; \
	  echo "Name another: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/ready: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) hatchling
	$(PIP) --no-build-isolation --editable .
	@touch $@

$(VENV)/ready-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) hatchling
	$(PIP) --no-build-isolation --editable '.[dev,docs,train]'
	@touch $@ $(VENV)/ready
