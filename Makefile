# Two commands do everything on a fresh machine that has Python 3.11+ and make:  make run  and  make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test laws bench clean

run: $(VENV)/.ready
	@$(BIN)/companyos demo

test: $(VENV)/.ready
	@echo "== ruff";          $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== import rules";  $(BIN)/lint-imports
	@echo "== mypy";          $(BIN)/mypy
	@echo "== pytest";        $(BIN)/pytest

# The laws at the size that the docs quote: some minutes.
laws: $(VENV)/.ready
	@LAWS=full $(BIN)/pytest tests/laws -rP

bench: $(VENV)/.ready
	@$(BIN)/companyos bench

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
