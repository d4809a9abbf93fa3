# `make` without a target lists the targets. Each target sets up what it needs.

VENV := .venv
PYTHON := $(VENV)/bin/python
JISSOKU := $(VENV)/bin/jissoku
SYSTEM_PYTHON ?= python3
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | \
	  while IFS='|' read -r verb text; do printf '  make %-10s %s\n' "$$verb" "$$text"; done

$(VENV)/.python: pyproject.toml
	@command -v cargo >/dev/null || { echo 'jissoku needs Rust: install it with rustup, then try again.' >&2; exit 2; }
	$(SYSTEM_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "jissoku needs Python 3.11 or newer")'
	$(SYSTEM_PYTHON) -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --upgrade 'pip>=25.1' 'maturin>=1.13,<2' click
	@touch $@

# What a comparison needs, beside click, which jissoku itself requires: it is installed while the
# compiler runs, so that the first comparison does not wait for it, nor for what only tests need.
LAB := import sys, tomllib; print(*tomllib.load(sys.stdin.buffer)["project"]["optional-dependencies"]["lab"], sep="\n")

$(VENV)/.race: $(VENV)/.python
	@$(PYTHON) -c '$(LAB)' <pyproject.toml >$(VENV)/lab.txt
	@$(PYTHON) -m pip install --quiet --requirement $(VENV)/lab.txt --group race
	@touch $@

# What requests execute, counted by `make training`: the compiler makes that fast, and the rest small.
COUNTS := crates/jissoku-python/counts.profdata
WITH_COUNTS := $(RUSTFLAGS) -Cprofile-use=$(CURDIR)/$(COUNTS)

$(VENV)/.built: $(VENV)/.python $(RUST_SOURCES) $(COUNTS)
	@echo 'Building jissoku: some minutes the first time.'
	@RUSTFLAGS='$(WITH_COUNTS)' CARGO_TERM_QUIET=true PIP_QUIET=1 VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop --release --quiet
	@touch $@

$(VENV)/.packages: $(VENV)/.python
	@$(PYTHON) -m pip install --quiet --group dev --group apps
	@touch $@

.PHONY: setup
setup: $(VENV)/.race $(VENV)/.packages ## Create the virtual environment with all Python packages.

.PHONY: build
build: ## Build everything; leaves .venv/bin/jissoku.
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.race $(VENV)/.built

# Flags leave the names of functions as they are, by which their counts are found; the settings of a
# profile of Cargo do not. Lines of the source, four fifths of the file, go.
# PYTHONS='python3.11 python3.12' builds a wheel for each.
PYTHONS ?= $(PYTHON)

.PHONY: wheel
wheel: $(VENV)/.python ## Build a wheel into target/wheels, for each of PYTHONS.
	RUSTFLAGS='$(WITH_COUNTS) -Cstrip=debuginfo' \
	  $(VENV)/bin/maturin build --profile release --interpreter $(PYTHONS) --target-dir target/wheel --out target/wheels

.PHONY: static
static: ## Build serve and load as one static file; needs musl-tools, rustup target add x86_64-unknown-linux-musl.
	cargo build --profile wheel --package jissoku-cli --target x86_64-unknown-linux-musl
	@ls -l target/x86_64-unknown-linux-musl/wheel/jissoku

.PHONY: race
race: build ## Compare the servers installed on this machine, and write a report (2 minutes and a half).
	$(JISSOKU) compare --quick --for 140s

.PHONY: ui
ui: build ## Show runs as pages in a browser, and start more; prints the link.
	$(JISSOKU) ui

# Tests wait for servers, timers and other processes: two at a time per core leave no core idle.
CORES := $(shell nproc)
TESTS_AT_ONCE := $(shell expr 2 '*' $(CORES))

# With compiled test modules a process of pytest starts in half the time, wherever the environment
# asks for none.
PYTEST := PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest

.PHONY: test
test: build $(VENV)/.packages ## Run the tests, Rust and Python (two minutes when built).
	cargo test --workspace --no-run --quiet
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-rust test-python

.PHONY: test-rust test-python
test-rust:
	RUST_TEST_THREADS=$(TESTS_AT_ONCE) $(PYTHON) -m tests.cargo_tests

test-python:
	$(PYTEST) -n $(CORES) --dist worksteal

# A failed slow test is run again once, a failed race test at most twice, and listed: see
# CONTRIBUTING.md, "Race tests". The timeout holds for each attempt, without its fixtures, which have
# limits of their own. What a failed attempt left open is reported when it is collected, and does not
# fail the attempt that passed.
RERUNS := --reruns-delay 5 -raR -o timeout_func_only=true \
  -W default::pytest.PytestUnraisableExceptionWarning

.PHONY: race-test
race-test: build $(VENV)/.packages ## Run the slow tests, and those that start servers and generate real load (some minutes).
	$(PYTEST) -m 'slow and not race and not endurance' -n $(TESTS_AT_ONCE) --dist worksteal --reruns 1 $(RERUNS)
	$(PYTHON) -m pytest -m race --timeout 300 --reruns 2 $(RERUNS)

# How many random schedules of requests, reads and handlers `make endurance` tries per transport, and
# how many random events it gives to the gateway, to the server, and to the load generator.
SCHEDULES ?= 1000000
EVENTS ?= 10000000

.PHONY: endurance
endurance: build $(VENV)/.packages ## Run the tests that take minutes: random schedules, held connections, slow clients, soak.
	PROPTEST_CASES=$(SCHEDULES) cargo test --profile quick --quiet -p jissoku-server --lib schedules
	RANDOM_EVENTS=$(EVENTS) cargo test --profile quick --quiet -p jissoku-proxy -p jissoku-server -p jissoku-load \
	  --lib -- random_orders_of_events as_over
	cargo test --profile quick --quiet -p jissoku-handlers --lib random_calls -- --ignored --nocapture
	cargo test --profile quick --quiet -p jissoku-store --test it endurance -- --ignored --nocapture --test-threads 1
	$(PYTHON) -m pytest -m endurance --timeout 8000

# How often each fault happens; FAULT_RUNS=1 takes ten minutes.
FAULT_RUNS ?= 50

.PHONY: faults
faults: build $(VENV)/.packages ## Make each fault of docs/fleet.md happen, 50 times (eight hours).
	for run in $$(seq $(FAULT_RUNS)); do \
	  $(PYTHON) -m pytest -q -m '' --timeout 900 $$($(PYTHON) -m tests.fleet.faults tests) || exit 1; done

# How often each cause is injected; DETECTIONS=1 takes three minutes.
DETECTIONS ?= 10

.PHONY: detection
detection: build $(VENV)/.packages ## Inject causes of slowness, and count how often explain detects them (half an hour).
	$(PYTHON) -m pytest -m endurance tests/explain --detections $(DETECTIONS)

# SIMULATE=--write writes the table into docs/ERROR-RATES.md; see python -m tests.simulation --help.
SIMULATE ?=

.PHONY: simulate
simulate: build $(VENV)/.packages ## Count how often verdicts are wrong, in simulated campaigns (20 minutes).
	$(PYTHON) -m tests.simulation $(SIMULATE)

.PHONY: golden
golden: build $(VENV)/.packages ## Rewrite the reports that tests compare with; review the diff.
	$(PYTHON) -m pytest tests/report --golden

.PHONY: training
training: build $(VENV)/.packages ## Count anew what requests execute, for the compiler (15 minutes; needs llvm-profdata).
	$(PYTHON) -m tests.training

.PHONY: schemas
schemas: build ## Rewrite the JSON Schemas of the records in docs/schemas.
	$(PYTHON) -m jissoku.records.schemas docs/schemas

$(VENV)/.docs: $(VENV)/.packages
	$(PYTHON) -m pip install --quiet --group docs
	@touch $@

.PHONY: docs
docs: build $(VENV)/.docs ## Build the documentation site; it needs no server: open target/docs/html/index.html.
	$(PYTHON) -m tests.documentation target/docs

FUZZ_TARGETS := head chunked exchange scan answer response uwsgi proxy_header forwarded message frames
# How long each target is fuzzed; FUZZ='-runs=70000000' counts executions instead of seconds.
FUZZ ?= -max_total_time=20
FUZZ_FLAGS := -max_len=1024 -dict=http.dict -print_final_stats=1 -verbosity=0

.PHONY: fuzz
fuzz: ## Fuzz the protocol, 20 s per fuzz target; needs cargo-fuzz and a nightly Rust, see fuzz/README.md.
	cd fuzz && cargo run --quiet --example seed
	cd fuzz && cargo +nightly fuzz build --sanitizer none
	@cd fuzz && mkdir -p artifacts && for target in $(FUZZ_TARGETS); do \
	  if cargo +nightly fuzz run --sanitizer none $$target -- $(FUZZ) $(FUZZ_FLAGS) >artifacts/$$target.log 2>&1; \
	  then echo "$$target: $$(sed -n 's/^stat::number_of_executed_units: //p' artifacts/$$target.log) executions"; \
	  else cat artifacts/$$target.log; exit 1; fi; \
	done

# Few cases of each property, because Miri is hundreds of times slower; no isolation, because the
# cases of tests are files. One test without unsafe code, which takes half of the time, is left out.
MIRI_TESTS := --skip every_day_of_four_centuries

.PHONY: miri
miri: ## Run the protocol's tests under Miri, which finds undefined behaviour (4 minutes; needs a nightly Rust).
	PROPTEST_CASES=4 MIRIFLAGS=-Zmiri-disable-isolation \
	  cargo +nightly miri test -p jissoku-http --lib --target-dir target/miri -- $(MIRI_TESTS)

# Tests of requests to handlers in C; the injected faults are those of test_sanitizers.py.
SANITIZED := $(addprefix tests/c_handlers/test_,requests.py later.py files.py parts.py uploads.py pauses.py stores.py charts.py)

# How many calls by chance the interface gets under AddressSanitizer; CALLS=10000000 takes 20
# minutes.
CALLS ?= 200000
SANITIZED_RUST = RUSTFLAGS=-Zsanitizer=address cargo +nightly test --quiet --lib --target-dir target/sanitize \
  --target $(shell rustc -vV | sed -n 's/^host: //p')

.PHONY: sanitize
sanitize: build $(VENV)/.packages ## Run the tests of handlers in C with sanitizers (some minutes; needs gcc's, and a nightly Rust).
	$(PYTHON) -m pytest -m '' tests/c_handlers/test_sanitizers.py
	$(PYTHON) -m pytest -m '' $(SANITIZED) --sanitizer address
	$(PYTHON) -m pytest -m '' $(SANITIZED) --sanitizer thread
	$(SANITIZED_RUST) -p jissoku-handlers -p jissoku-handler
	RANDOM_CALLS=$(CALLS) $(SANITIZED_RUST) -p jissoku-handlers random_calls -- --ignored --nocapture

.PHONY: deny
deny: ## Check the crates' licences, advisories and duplicates; needs cargo-deny.
	cargo deny check

.PHONY: format
format: $(VENV)/.packages ## Format Rust and Python.
	cargo fmt --all
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix --quiet .

.PHONY: lint
lint: build $(VENV)/.packages ## Check formatting, lints and types; every warning is an error.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(VENV)/bin/ruff format --check --quiet .
	$(VENV)/bin/ruff check --quiet .
	$(VENV)/bin/mypy

.PHONY: check
check: lint test ## Run lint and test: must pass before a change is proposed.

.PHONY: clean
clean: ## Remove build outputs; keep runs and their reports.
	rm -rf $(VENV) target
	find python tests -name __pycache__ -type d -prune -exec rm -rf {} +
