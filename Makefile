PYTHON ?= python3
# There is a worker for every core: a second thread of BLAS would wait for one by spinning.
PYTEST = $(BYTECODE) OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder
# Where Python is told to keep no bytecode, as in many containers, each of the processes that tests
# start would spend seconds on compiling JAX and the rest anew.
ifdef PYTHONDONTWRITEBYTECODE
BYTECODE = PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/.cache/python
endif
TYPES = .venv/bin/basedpyright --pythonpath .venv/bin/python
BROWSER = { command -v chromium && command -v chromedriver; } >/dev/null

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test quick lint types versions browser browser-for-tests bench chaos docs wheel clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: .venv/.runtime  ## train the 1-D Helmholtz family and leave a picture in runs/demo
	.venv/bin/lcpinn train helmholtz-1d --out runs/demo --overwrite

# Types are checked beside the tests, on one core, while those have the others. What is wrong with
# them is told at the end; otherwise the last word is pytest's.
test: lint browser-for-tests  ## lint, check types, run the tests
	@mkdir -p .cache; $(TYPES) >.cache/types.log 2>&1 & types=$$!; \
	trap 'kill $$types 2>/dev/null' EXIT; \
	echo "$(TYPES) (beside the tests)"; echo "$(PYTEST)"; \
	$(PYTEST); tests=$$?; \
	wait $$types || { cat .cache/types.log; exit 1; }; \
	exit $$tests

quick: lint  ## ruff and the tests that take moments, for in between
	$(PYTEST) -m 'not slow'

lint: .venv/.dev  ## ruff
	.venv/bin/ruff check .

types: .venv/.dev  ## basedpyright
	$(TYPES)

versions:  ## lint, types and tests on each Python with the oldest and the newest JAX (hours)
	tools/versions.sh

browser:  ## install Debian's chromium, in which the page of `lcpinn explore` is tested
	@if ! $(BROWSER); then \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$sudo apt-get update -q && \
	  $$sudo apt-get install -y -q --no-install-recommends chromium chromium-driver; \
	fi

# On a person's own machine nothing is installed unasked, and the tests of the page are skipped.
browser-for-tests:
	@if $(BROWSER); then :; \
	elif [ -n "$$CI" ]; then $(MAKE) --no-print-directory browser; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  $(MAKE) --no-print-directory browser; then :; \
	else \
	  echo "************************************************************************"; \
	  echo "  There is no chromium: the tests of the explorer page WILL BE SKIPPED."; \
	  echo "  To run them:  make browser    (apt-get install chromium chromium-driver)"; \
	  echo "************************************************************************"; \
	fi

bench: .venv/.runtime  ## run the benchmarks (those against PyTorch need: .venv/bin/pip install torch==2.13.0)
	.venv/bin/python -m benchmarks

chaos: .venv/.dev  ## kill trainings, damage files, fill disks, ... and count what holds (an hour; resumes)
	.venv/bin/python -m benchmarks.chaos

docs: .venv/.docs  ## build the site into site/
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict

wheel: .venv/.dev  ## build dist/lcpinn-*.whl, which needs nothing of this directory
	.venv/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

clean:  ## remove the virtual environment, caches and builds (runs/ stays)
	rm -rf .venv .cache .hypothesis .jax_cache .pytest_cache .ruff_cache build dist site
	find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The environment is reinstalled only when pyproject.toml changes. The demo needs the runtime
# dependencies alone; the checks add the dev extra, which covers the runtime too.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "lcpinn needs Python 3.11 or newer; '$(PYTHON)' is not. Try: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

.venv/.runtime: pyproject.toml | .venv/bin/python
	@echo "Installing lcpinn into .venv (takes a minute) ..."
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check -e .
	@touch .venv/.runtime

.venv/.docs: pyproject.toml | .venv/bin/python
	@echo "Installing lcpinn and what builds its site into .venv (takes a minute) ..."
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch .venv/.runtime .venv/.docs

.venv/.dev: pyproject.toml | .venv/bin/python
	@echo "Installing lcpinn and its development tools into .venv (takes a minute) ..."
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]'
	@touch .venv/.runtime .venv/.docs .venv/.dev
