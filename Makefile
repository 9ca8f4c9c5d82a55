# One task runner: CI calls these very targets. Everything needed goes into .venv, which `make clean` removes.
#
#   make PYTHON=python3.12 test        another interpreter (`make clean` first to replace the one in .venv)
#   make test PYTEST_ARGS="-k norm"    arguments for pytest; likewise DEMO_ARGS, BENCH_ARGS, SPEED_ARGS, STUDY_ARGS

PYTHON ?= python3
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
SPEED_ARGS ?=
STUDY_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin/python
PYTEST := $(BIN) -m pytest
XDIST := -n auto --maxprocesses 4 --dist worksteal
# Two makes at the same time take turns at installing, where the system has flock.
LOCK := $(shell command -v flock >/dev/null 2>&1 && echo flock Makefile)

export MPLBACKEND := Agg
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# All recipes share one .venv, so `make -j` runs them one after the other.
.NOTPARALLEL:
.PHONY: help demo test test-slow lint format bench study study-quick clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

demo: $(VENV)/.demo ## the main job on real data: estimate, post-process, let a search pick
	@$(BIN) -m sklearn_ldp demo $(DEMO_ARGS)

test: $(VENV)/.test ## the quick tests and the doctests (under two minutes on two cores)
	@$(PYTEST) $(XDIST) -m "not slow" --doctest-modules sklearn_ldp tests $(PYTEST_ARGS)

test-slow: $(VENV)/.test ## the slow ring: long statistical tests
	@$(PYTEST) $(XDIST) -m slow tests $(PYTEST_ARGS)

lint: $(VENV)/.lint ## ruff (rules and format), mypy, codespell, docstrings
	@$(BIN) -m ruff check .
	@$(BIN) -m ruff format --check .
	@$(BIN) -m mypy
	@$(BIN) -m codespell_lib
	@$(BIN) .ci/check_docstrings.py

format: $(VENV)/.lint ## format the code, and repair what ruff can repair
	@$(BIN) -m ruff check --fix-only .
	@$(BIN) -m ruff format .

bench: $(VENV)/.bench ## the main job on large inputs and every oracle, timed
	@$(BIN) -m benchmarks.main_job $(BENCH_ARGS)
	@$(BIN) -m benchmarks.postprocessor_speed
	@$(BIN) -m benchmarks.oracle_speed $(SPEED_ARGS)

study: $(VENV)/.test ## the papers' experiments, and what they print beside ours (under ten minutes)
	@$(BIN) -m benchmarks.study $(STUDY_ARGS)

study-quick: $(VENV)/.test ## the same with fewer points and repeats (under two minutes)
	@$(BIN) -m benchmarks.study --quick $(STUDY_ARGS)

clean: ## remove .venv, caches and builds
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find sklearn_ldp tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# ---- environments: a stamp in .venv for each set of extras, renewed when pyproject.toml changes ----

$(VENV)/.demo: EXTRAS := plot,progress
$(VENV)/.test: EXTRAS := test
$(VENV)/.lint: EXTRAS := test,lint
$(VENV)/.bench: EXTRAS := benchmark

$(VENV)/.demo $(VENV)/.test $(VENV)/.lint $(VENV)/.bench: pyproject.toml $(VENV)/.python
	@echo "Installing sklearn_ldp[$(EXTRAS)] into $(VENV) ..."
	@$(LOCK) $(BIN) -m pip install --quiet -e '.[$(EXTRAS)]' >$@.log 2>&1 || \
		{ cat $@.log >&2; echo "error: pip could not install sklearn_ldp[$(EXTRAS)], see above" >&2; exit 1; }
	@touch $@

$(VENV)/.python:
	$(call require_python)
	@echo "Creating $(VENV) with $(PYTHON) ..."
	@$(LOCK) sh -c '$(BIN) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)'
	@touch $@

# Stops with one line if PYTHON is missing, too old or without venv.
require_python = $(if $(PYTHON_PROBLEM),$(error $(PYTHON_PROBLEM)))
REMEDY = choose another with: make PYTHON=/path/to/python3.11
PYTHON_PROBLEM = $(shell \
	if ! command -v $(PYTHON) >/dev/null 2>&1; then \
		echo "sklearn_ldp needs Python 3.11 or newer, and there is no '$(PYTHON)' here; $(REMEDY)"; \
	elif ! found=$$($(PYTHON) -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null); then \
		echo "sklearn_ldp needs Python 3.11 or newer, and '$(PYTHON)' does not run; $(REMEDY)"; \
	elif ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		echo "sklearn_ldp needs Python 3.11 or newer, and '$(PYTHON)' is Python $$found; $(REMEDY)"; \
	elif ! $(PYTHON) -c 'import venv, ensurepip' 2>/dev/null; then \
		echo "'$(PYTHON)' (Python $$found) lacks the venv module; install it (Debian and Ubuntu: apt install python3-venv) or $(REMEDY)"; \
	fi)
