# The one task runner: CI calls these same targets. Everything they need is installed into .venv, which `make clean` removes.
#
#   make PYTHON=python3.12 test        use another interpreter (run `make clean` first to replace the one in .venv)
#   make test PYTEST_ARGS="-k norm"    arguments for pytest; likewise DEMO_ARGS, BENCH_ARGS, SPEED_ARGS, ...

PYTHON ?= python3
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
SPEED_ARGS ?=
STUDY_ARGS ?=
RACE_ARGS ?= --page doc/notes/race.md
LEADERBOARD_ARGS ?= --page doc/notes/leaderboard.md
REGRESSION_ARGS ?=
MUTATE_ARGS ?=
DOC_ARGS ?=
RELEASE_ARGS ?=

VENV := .venv
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(SCRIPTS)/python
PYTEST := $(BIN) -m pytest
XDIST := -n auto --maxprocesses 4 --dist worksteal
# If two makes run at the same time, they install one after the other (on systems that have flock).
LOCK := $(shell command -v flock >/dev/null 2>&1 && echo flock Makefile)

export MPLBACKEND := Agg
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# Byte code is kept: without it every process of the tests compiles them again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# All recipes share one .venv, so `make -j` runs them one after the other.
.NOTPARALLEL:
.PHONY: help demo test test-slow test-versions vectors api formats lint format bench leaderboard race regression mutate study study-quick doc wheel bom release-check coverage clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

demo: $(VENV)/.demo ## the main job on real data: estimate, post-process, let a search choose
	@$(BIN) -m sklearn_ldp demo $(DEMO_ARGS)

test: $(VENV)/.test ## the quick tests and the doctests (two minutes on two cores)
	@$(PYTEST) $(XDIST) --durations=20 -m "not slow and not pages" --doctest-modules sklearn_ldp tests $(PYTEST_ARGS)

test-slow: $(VENV)/.test ## the slow tests: long statistical tests, and many examples of each property
	@$(PYTEST) $(XDIST) --durations=20 -m "slow or hypothesis" --hypothesis-profile thorough tests $(PYTEST_ARGS)

test-versions: $(VENV)-oldest/.versions $(VENV)-newest/.versions ## the quick tests with the oldest and the newest supported versions
	@$(call quick_tests,$(VENV)-oldest)
	@$(call quick_tests,$(VENV)-newest)

vectors: $(VENV)/.test ## write the vectors that clients in all languages are tested by
	@$(BIN) tests/vectors.py

api: $(VENV)/.test ## write the list of public names and signatures, after a change of them that is meant
	@$(BIN) tests/api.py

formats: $(VENV)/.test ## write files of every format, which all later versions have to read; before each release
	@$(BIN) tests/formats.py

lint: $(VENV)/.lint ## ruff (rules and format), mypy and pyright, codespell, docstrings
	@$(BIN) -m ruff check .
	@$(BIN) -m ruff format --check .
	@$(BIN) -m mypy
	@$(BIN) -m mypy --strict tests/typing
	@$(BIN) -m basedpyright --pythonpath $(BIN)
	@$(BIN) -m codespell_lib
	@$(BIN) .ci/check_docstrings.py
	@$(BIN) .ci/check_types.py

format: $(VENV)/.lint ## format the code, and repair what ruff can repair
	@$(BIN) -m ruff check --fix-only .
	@$(BIN) -m ruff format .

bench: $(VENV)/.bench ## what of post-processors and searches once took long, and oracles on small domains, timed
	@$(BIN) -m benchmarks.speed.postprocessor_speed $(BENCH_ARGS)
	@$(BIN) -m benchmarks.speed.oracle_speed $(SPEED_ARGS)

leaderboard: $(VENV)/.bench ## all post-processors and searches by question, on data that anybody has; writes doc/notes/leaderboard.md (ten minutes)
	@$(BIN) -m benchmarks.leaderboard --n-jobs 2 $(LEADERBOARD_ARGS)

race: $(VENV)/.bench $(VENV)-peers/.peers ## compare with pure-ldp, multi-freq-ldpy, ldp-toolbox and opendp; writes doc/notes/race.md (half an hour)
	@$(BIN) -m benchmarks.speed.race --peers-python $(VENV)-peers/$(SCRIPTS)/python $(RACE_ARGS)

regression: $(VENV)/.bench ## compare time, memory and import with stored ratios to a NumPy yardstick (a minute)
	@$(BIN) -m benchmarks.speed.regression $(REGRESSION_ARGS)

mutate: $(VENV)/.test ## change the package at random, and print which changes the quick tests notice (a minute a change)
	@$(BIN) .ci/mutate.py $(MUTATE_ARGS)

study: $(VENV)/.test ## the papers' experiments, with their statements beside our measurements (under ten minutes)
	@$(BIN) -m benchmarks.papers $(STUDY_ARGS)

study-quick: $(VENV)/.test ## the same with fewer points and repeats (under two minutes)
	@$(BIN) -m benchmarks.papers --quick $(STUDY_ARGS)

# On a busy machine, threads that wait for each other take many times as long as one.
doc: export OMP_NUM_THREADS := 1
doc: $(VENV)/.doc $(VENV)/.test ## run the code of the pages, and build the documentation, warnings as errors (under two minutes)
	@$(PYTEST) -q -m pages tests/docs
	@$(BIN) -m sphinx -W --keep-going -q -b html -d doc/_build/doctrees doc doc/_build/html $(DOC_ARGS)
	@$(BIN) .ci/check_pages.py doc/_build/html
	@echo "the documentation is doc/_build/html/index.html"

wheel: $(VENV)/.build ## build a wheel and an sdist; each must run the demo in a bare environment (a minute)
	@rm -rf dist
	@$(BIN) -m build --outdir dist . >$(VENV)/.build.log 2>&1 || { cat $(VENV)/.build.log >&2; exit 1; }
	@for package in dist/*.whl dist/*.tar.gz; do \
		$(PYTHON) -m venv --clear $(VENV)-bare && \
		$(VENV)-bare/$(SCRIPTS)/python -m pip install --quiet "$$package" && \
		(cd $(VENV)-bare && $(SCRIPTS)/python -W error -m sklearn_ldp demo >demo.log 2>&1 || { cat demo.log >&2; exit 1; }) || exit 1; \
		echo "$$package: the demo runs in a bare environment"; \
	done

bom: $(VENV)/.build ## the bill of materials of the wheel in dist and what it needs at run time (CycloneDX), after make wheel
	@$(BIN) -m venv --clear $(VENV)-bom
	@$(VENV)-bom/$(SCRIPTS)/python -m pip install --quiet dist/*.whl
	@mkdir -p build && $(BIN) -m cyclonedx_py environment --output-file build/sklearn_ldp.cdx.json $(VENV)-bom/$(SCRIPTS)/python

release-check: $(VENV)/.python ## say what a release still lacks, after make wheel
	@$(BIN) .ci/check_release.py $(RELEASE_ARGS)

coverage: $(VENV)/.coverage ## the quick tests with the lines that they run, in percent (twice as long as make test)
	@$(PYTEST) $(XDIST) -q -m "not slow and not pages" --cov=sklearn_ldp --cov-report=term:skip-covered tests $(PYTEST_ARGS)

clean: ## remove the environments, caches and builds
	@rm -rf .coverage .coverage.* doc/_build doc/generated doc/auto_examples $(VENV) $(VENV)-* build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find sklearn_ldp tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# ---- environments: one stamp in .venv per set of extras, renewed when pyproject.toml changes ----

$(VENV)/.demo: EXTRAS := plot,progress
$(VENV)/.test: EXTRAS := test
$(VENV)/.lint: EXTRAS := test,lint
$(VENV)/.bench: EXTRAS := benchmark
$(VENV)/.doc: EXTRAS := doc
$(VENV)/.build: EXTRAS := build
$(VENV)/.coverage: EXTRAS := test,coverage

$(VENV)/.demo $(VENV)/.test $(VENV)/.lint $(VENV)/.bench $(VENV)/.doc $(VENV)/.build $(VENV)/.coverage: pyproject.toml $(VENV)/.python
	@echo "Installing sklearn_ldp[$(EXTRAS)] into $(VENV) ..."
	@$(LOCK) $(BIN) -m pip install --quiet -e '.[$(EXTRAS)]' >$@.log 2>&1 || \
		{ cat $@.log >&2; echo "error: pip could not install sklearn_ldp[$(EXTRAS)], see above" >&2; exit 1; }
	@touch $@

$(VENV)/.python:
	$(call require_python)
	@echo "Creating $(VENV) with $(PYTHON) ..."
	@$(LOCK) sh -c '$(BIN) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)'
	@touch $@

# ---- separate environments: the packages that we compare with, and other versions of what we need ----

$(VENV)-peers/.peers: benchmarks/peers.txt
	$(call environment,-r benchmarks/peers.txt)

$(VENV)-oldest/.versions: pyproject.toml .ci/oldest.py $(VENV)/.python
	@$(BIN) .ci/oldest.py test >$(VENV)/oldest.txt
	$(call environment,-r $(VENV)/oldest.txt -e '.[test]')

# Renewed at every run, because the newest versions do not stay the newest.
.PHONY: $(VENV)-newest/.versions
$(VENV)-newest/.versions:
	$(call environment,--upgrade --upgrade-strategy eager -e '.[test]')

# Creates the environment in the folder of the target; the argument tells pip what to install.
define environment
	$(call require_python)
	@echo "Installing into $(@D) ..."
	@$(LOCK) sh -c '$(@D)/$(SCRIPTS)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(@D)'
	@$(LOCK) $(@D)/$(SCRIPTS)/python -m pip install --quiet $(1) >$@.log 2>&1 || \
		{ cat $@.log >&2; echo "error: pip could not install $(1), see above" >&2; exit 1; }
	@touch $@
endef

quick_tests = $(1)/$(SCRIPTS)/python -c 'import joblib, numpy, scipy, sklearn; \
	print(*(f"{m.__name__} {m.__version__}" for m in (numpy, scipy, sklearn, joblib)), sep=", ")' && \
	$(1)/$(SCRIPTS)/python -W error -c 'import sklearn_ldp' && \
	$(1)/$(SCRIPTS)/python -m pytest $(XDIST) -m "not slow" --doctest-modules sklearn_ldp tests $(PYTEST_ARGS)

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
