# `make` alone lists the targets. PYTHON=… chooses the interpreter for .venv, ARGS=… goes to the program that is run.

BIN   := .venv/bin
READY := .venv/.ready
ARGS  ?=

# The first interpreter that runs and is new enough; a pyenv shim may exist without running.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

# Tests start the program hundreds of times: compiling it anew each time would take longer than most of them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run test prove simulate minimum check fix coverage docs bench bench-peers diagram pictures clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with the project and its tools; does nothing while it is up to date

run: $(READY) ## Start the demo: failing workflows, and the console to find and fix them; ARGS="--speed 10" for a slower clock
	$(BIN)/mahavishnu demo $(ARGS)

test: $(READY) ## Run the tests, with a real OpenSearch, in two processes; ARGS="-k backoff" for some of them
	$(BIN)/pytest -m "not prove" -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

prove: $(READY) ## Run the slow proofs: chaos, lost nodes, kills among 50,000 letters, lists of 100,000, the whole API schema
	$(BIN)/pytest -m prove $(ARGS)

simulate: $(READY) ## Run apps, workers and people with faults on virtual time; SEED=7 for one course, SEEDS=2000 for many
	$(BIN)/python -m tests.proofs.simulation $(if $(SEED),--seed $(SEED) --log,--seeds $(or $(SEEDS),20)) $(ARGS)

# Those that have found differences between versions of what we depend on.
MINIMUM_TESTS := tests/*/test_routes*.py tests/*/test_page*.py tests/http tests/console tests/core/test_api*.py \
	tests/core/test_commands*.py tests/core/test_processes_connections.py tests/letters/test_commands.py \
	tests/settings/test_settings.py tests/settings/test_sources.py tests/classify/test_plugins.py \
	tests/values/test_arguments.py tests/capture/test_*adapter*.py tests/capture/test_runner.py \
	tests/stores/test_base.py tests/stores/test_*codec*.py tests/stores/test_kind.py tests/stores/test_urls.py \
	tests/stores/sqlite/test_store.py --ignore tests/console/browser  # a browser needs another extra

minimum: $(READY) ## Run some of the tests with the oldest versions that pyproject.toml allows
	$(BIN)/python -m venv --clear build/minimum
	$(BIN)/python tools/minimum_versions.py > build/minimum/constraints.txt
	build/minimum/bin/pip install --quiet --disable-pip-version-check -c build/minimum/constraints.txt -e '.[cli,http]' \
		hypothesis 'pytest>=8.2' pytest-asyncio pytest-xdist respx
	build/minimum/bin/pytest -W default -p no:cacheprovider -q -n 2 $(MINIMUM_TESTS) $(ARGS)

check: $(READY) ## Check format, lint, types, the direction of imports, the rules of the house, and what starts import
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/python tools/write_sync_stub.py --check
	$(BIN)/mypy
	@mkdir -p build/checked && cp mahavishnu/core/sync.py build/checked/sync_module.py
	$(BIN)/mypy build/checked/sync_module.py  # behind its stub, mypy does not see it
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/check_house.py
	$(BIN)/python tools/check_starts.py
	$(BIN)/python -m benchmarks.walks --check
	$(BIN)/python tools/format_templates.py --check

fix: $(READY) ## Write the types of app.sync, format, and repair what the linter can repair
	$(BIN)/python tools/write_sync_stub.py
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format
	$(BIN)/python tools/format_templates.py

coverage: $(READY) ## Measure what the tests reach without the proofs and the browser; fails below 95 %
	$(BIN)/pytest -m "not prove" -n 2 --dist loadfile --cov --cov-report=term:skip-covered --cov-fail-under=95 -q tests plugins --ignore tests/proofs --ignore tests/console/browser $(ARGS)

docs: $(READY) ## Build the documentation as a site into build/site; a warning is an error
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(READY) ## Measure the stores, the engine and the HTTP API; writes docs/benchmarks.md (two checkouts: benchmarks/compare.py)
	$(BIN)/python -m benchmarks.stores $(ARGS)
	$(BIN)/python -m benchmarks.engine $(ARGS)
	$(BIN)/python -m benchmarks.texts $(ARGS)
	$(BIN)/python -m benchmarks.api $(ARGS)

bench-peers: $(READY) ## Run the same jobs on other systems, in environments of their own; ARGS="--jobs 300 --rounds 1 arq rq" for some
	$(BIN)/python -m benchmarks.peers $(ARGS)

diagram: $(READY) ## Redraw docs/lifecycle.md from the table of moves
	$(BIN)/python -m docs.draw_lifecycle

pictures: $(READY) ## Take the pictures of the console again, into docs/img
	MAHAVISHNU_PICTURES=docs/img $(BIN)/pytest -q -m prove tests/console/browser/test_console_pictures.py $(ARGS)

clean: ## Remove .venv and everything that tools have written
	rm -rf .venv .coverage .coverage.* htmlcov build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer found: install one, or say make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: apt install python3-venv (Debian, Ubuntu)" >&2; exit 1; }
	@$(BIN)/python -c 'import pip' 2>/dev/null || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
