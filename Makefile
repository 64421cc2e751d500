# SPDX-License-Identifier: Apache-2.0
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup demo test test-agents conformance conformance-smoke lint bench bench-agents shim clean
.DEFAULT_GOAL := help

help:  ## what each target does
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP)  ## a virtual environment with everything, in .venv

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "history-delta: Python 3.11 or newer is needed; set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: setup  ## the main job from start to finish, on an embedded scripted model
	$(BIN)/history-delta demo

test: setup shim  ## all tests but those with real agents
	$(BIN)/python -m pytest -m 'not agents' -n 2 $(PYTEST_ARGS)

test-agents: setup shim  ## real agents through shim and server; installs them into .agents on first use
	$(BIN)/python -m pytest -m agents $(PYTEST_ARGS)

conformance: setup  ## five real agents, every scenario, transport off against on; the report in build/conformance
	rm -rf build/conformance
	$(BIN)/history-delta conformance --output build/conformance $(CONFORMANCE_ARGS)

conformance-smoke: setup  ## the same for four agents and two scenarios
	rm -rf build/conformance-smoke
	$(BIN)/history-delta conformance --smoke --output build/conformance-smoke $(CONFORMANCE_ARGS)

lint: setup  ## ruff and strict mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup shim  ## what the shim adds to a call; the result in benchmarks/results
	$(BIN)/python benchmarks/shim_overhead.py --json benchmarks/results/shim_overhead.json

bench-agents: setup shim  ## what real agents upload, every scenario and dialect; some minutes
	$(BIN)/python benchmarks/agents.py --markdown benchmarks/results/agents.md --json benchmarks/results/agents.json

shim: setup  ## dist/history_delta_shim.pyz, reproducibly
	$(BIN)/python shim/build.py

clean:  ## what the targets above have made, but for .venv and .agents
	rm -rf dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
