# Everything here does its own set-up: Python 3.11+ and make are all that must be there.
# PYTHON=python3.12 make test  chooses another interpreter; PYTEST_ARGS="-k outbox" goes to pytest.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed-$(shell cat requirements/dev.txt pyproject.toml | cksum | tr ' ' '-')
PYTEST_ARGS ?=
# More than the two cores of a small machine: a third of their time, tests wait for servers.
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint format bench lock docs clean

help: ## Show what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | while IFS="$$(printf '\t')" read -r name text; do printf '  make %-8s %s\n' "$$name" "$$text"; done

setup: $(STAMP) ## Create .venv with the pinned packages (the others do this by themselves)

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "Ulak needs Python 3.11 or newer as '$(PYTHON)'. Install it, or say which: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "Setting up $(VENV) (once, about a minute)..."
	@$(PYTHON) -m venv --clear $(VENV) || { echo "Cannot create a virtual environment. On Debian or Ubuntu: apt install python3-venv." >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt || { echo "Cannot install the pinned packages: see the line above. Without a network, point pip at a mirror (pip config set global.index-url ...)." >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e clients/python
	@touch $@
	@echo "Set up."

demo: $(STAMP) ## Run the main job end to end on an embedded stack and show what happened
	@$(BIN)/ulak demo

test: $(STAMP) ## Run all tests, on embedded servers
	@$(BIN)/python -m ops.dev.servers -- $(BIN)/pytest -n $(WORKERS) $(PYTEST_ARGS)

check: lint ## Format, lint, types, dependency rule, unit tests
	@$(BIN)/pytest -q -n $(WORKERS) tests/unit

lint: $(STAMP) ## The same without tests
	@$(BIN)/ruff format --check --quiet . || { echo "Some files are not formatted: make format." >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

format: $(STAMP) ## Format the code and mend what the linter can
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format --quiet .

bench: $(STAMP) ## Measure; ONLY=push,otp for some of it
	@$(BIN)/python -m ops.dev.servers -- $(BIN)/python -m bench $(if $(ONLY),--only $(ONLY))

docs: $(STAMP) ## Write the documents made from the code (settings, metrics, OpenAPI)
	@$(BIN)/python docs/generate.py

lock: $(STAMP) ## Resolve the pinned packages anew
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --upgrade --custom-compile-command "make lock" --extra embedded --group dev pyproject.toml -o requirements/dev.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command "make lock" -c requirements/dev.txt pyproject.toml -o requirements/runtime.txt

clean: ## End the stack of this clone and remove what was made (its data too)
	@if [ -x $(BIN)/ulak ]; then $(BIN)/ulak dev down --wipe || true; fi
	@rm -rf $(VENV) .ulak .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache bench/results
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
