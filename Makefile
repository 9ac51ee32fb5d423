# make run and make test are all that a fresh clone needs (python3.11 or later with headers and venv, C and C++ compilers, libre2-dev, libssl-dev).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
STAMPS := $(VENV)/stamps

export PATH := /usr/lib/ccache:$(PATH)

# The requirements that a Python expression names, one a line.
requirements = $(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); q = p["project"]; print(*($(1)), sep="\n")'

.PHONY: build
build: $(STAMPS)/requirements ## .venv with everything compiled in place, .venv/bin/fastdns
	@$(BIN)/python setup.py -q build_ext --inplace
	@$(MAKE) --no-print-directory -s $(STAMPS)/editable

$(STAMPS)/venv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fastdns needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# Before the first compile, from pyproject.toml alone.
$(STAMPS)/requirements: pyproject.toml | $(STAMPS)/venv
	@$(call requirements,p["build-system"]["requires"] + q["dependencies"] + q["optional-dependencies"]["test"]) | xargs $(PIP) install
	@touch $@

$(STAMPS)/editable: setup.py pyproject.toml $(wildcard bench/cli.py) | $(STAMPS)/requirements
	$(PIP) install --no-build-isolation --no-deps -e .
	@touch $@

.PHONY: run
run: build ## serves the sample cluster on 127.0.0.1:5353 and prints queries to try
	@$(BIN)/python tools/sample_queries.py fastdns/sample/queries.txt 5353
	@cd fastdns/sample && exec ../../$(BIN)/fastdns -conf Corefile -dns.port 5353

.PHONY: ask
ask: build
	@$(BIN)/python tools/sample_queries.py fastdns/sample/queries.txt 5353 $(Q)

.PHONY: test
# Most of their time is waiting, so two at once; what measures is alone.
test: build ## the tests, but for the slow ones
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not timing and not memory"
	$(BIN)/python -m pytest -m "not slow and (timing or memory)"

.PHONY: slow
slow: build ## the tests of many seconds: packages built, large clusters
	$(BIN)/python -m pytest -m slow

# make bench UPDATE=1 writes the numbers down, make bench K=cache measures some.
.PHONY: bench
bench: build ## micro-benchmarks, compared with what is written down for this kind of processor
	$(BIN)/fastdns-bench micro $(if $(UPDATE),--update) $(if $(K),-k "$(K)")

.PHONY: lint
lint: build $(STAMPS)/lint ## ruff, mypy, cython-lint
	$(BIN)/ruff check .
	$(BIN)/mypy
	tools/cython_lint.sh

.PHONY: format
format: $(STAMPS)/lint ## ruff's layout and import order
	$(BIN)/ruff check -q --fix .
	$(BIN)/ruff format .

.PHONY: wheel
wheel: build $(STAMPS)/wheel ## sdist in dist/, the wheel made from it and repaired in wheelhouse/
	rm -rf dist wheelhouse
	$(BIN)/python -m build --no-isolation --outdir dist .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m auditwheel repair --wheel-dir wheelhouse dist/*.whl
	$(BIN)/python -m twine check --strict dist/*.tar.gz wheelhouse/*.whl

# The tests against a build with AddressSanitizer and UndefinedBehaviorSanitizer, apart from the ordinary one.
# make sanitize TESTS=tests/wire runs some.
SANITIZERS ?= address,undefined
TESTS ?= tests
SANITIZED := build/sanitized
.PHONY: sanitize
sanitize: build ## the tests against a build with ASan and UBSan
	FASTDNS_SANITIZE=$(SANITIZERS) $(BIN)/python setup.py -q build --build-lib $(SANITIZED)
	tools/with_sanitizers.sh $(BIN)/python -m pytest --capture=sys -o pythonpath="$(SANITIZED) ." -o timeout=600 -m "not slow and not memory and not timing" $(TESTS)

# What workers, writers and Python's threads share, watched by ThreadSanitizer. make tsan TESTS=tests/test_index.py runs some.
THREADED := tests/test_index.py tests/test_epoch.py tests/test_lane.py tests/test_tcp.py tests/test_log.py tests/test_metrics.py tests/test_http.py \
	tests/robustness/test_reload.py tests/robustness/test_parking.py tests/robustness/test_python_plugins.py tests/plugins
.PHONY: tsan
tsan: build ## the tests of what threads share against a build with TSan
	FASTDNS_SANITIZE=thread $(BIN)/python setup.py -q build --build-lib build/threads
	FASTDNS_SANITIZE=thread tools/with_sanitizers.sh $(BIN)/python -m pytest -o pythonpath="build/threads ." -o timeout=600 \
		-m "not slow and not memory and not timing" $(if $(filter file,$(origin TESTS)),$(THREADED),$(TESTS))

# The tests against a build without optimisation, with bounds checks and counters of live memory (fastdns/system/debug.pyi), apart from the ordinary one.
.PHONY: debug
debug: build ## the tests against a debug build
	FASTDNS_DEBUG=1 $(BIN)/python setup.py -q build --build-lib build/debug
	PYTHONPATH="$(CURDIR)/build/debug" FASTDNS_BIN="$(CURDIR)/$(BIN)/python -P -m fastdns" $(BIN)/python -m pytest -o pythonpath="build/debug ." -o timeout=600 \
		-m "not slow and not memory and not timing" $(TESTS)

# Mutated packets and upstream replies thrown at a server built with the sanitizers (tests/fuzz): make fuzz PACKETS=1000000 SEED=7
PACKETS ?= 1000000
SEED ?= 1
.PHONY: fuzz
fuzz: build ## mutated packets against the build with ASan and UBSan
	FASTDNS_SANITIZE=$(SANITIZERS) $(BIN)/python setup.py -q build --build-lib $(SANITIZED)
	FASTDNS_BIN="$(CURDIR)/tools/with_sanitizers.sh $(CURDIR)/$(BIN)/python -P -m fastdns" $(BIN)/python -m tests.fuzz.packets $(PACKETS) $(SEED)

# R19: load, changes, reloads and outages at once: make soak MINUTES=4320 for the 72 hours of the goal
MINUTES ?= 60
.PHONY: soak
soak: build ## everything at once for MINUTES, with all answers checked
	$(BIN)/python -m tests.soak $(MINUTES)

.PHONY: clean
clean: ## back to a fresh clone, but for .venv
	rm -rf fastdns/plugin.cfg build dist wheelhouse *.egg-info .pytest_cache .mypy_cache .ruff_cache .benchmarks
	find fastdns plugins bench \( -name '*.so' -o -name '*.c' -o -name '*.cpp' -o -name '__pycache__' \) -prune -exec rm -rf {} +
	find tests \( -name '*.so' -o -name '__pycache__' \) -prune -exec rm -rf {} +

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

$(STAMPS)/lint: pyproject.toml | $(STAMPS)/requirements
	@$(call requirements,q["optional-dependencies"]["lint"]) | xargs $(PIP) install
	@touch $@

$(STAMPS)/wheel: pyproject.toml | $(STAMPS)/requirements
	@$(call requirements,q["optional-dependencies"]["wheel"]) | xargs $(PIP) install
	@touch $@
