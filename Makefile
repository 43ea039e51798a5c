# Every target sets up what it needs: a virtual environment in .venv, made with Python 3.11 or later.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help setup test lint demo bench clean
help:                    ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP)          ## make the virtual environment and install tunefarm in it
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; assert (3, 11) <= sys.version_info[:2] <= (3, 13), "tunefarm needs Python 3.11 to 3.13; set PYTHON=/path/to/python3.11"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

lint: $(STAMP)           ## ruff, mypy, import contracts
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint               ## everything a change must pass
	$(BIN)/pytest

clean:                   ## remove what the targets above made
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

demo: $(STAMP)           ## a whole farm on this machine; SERVE=1 leaves the dashboard up
	@$(BIN)/tunefarm demo $(if $(SERVE),--serve)
