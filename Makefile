# make run and make test are all that a fresh clone needs. tools/system_packages.py has the list of what they take from the system.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
STAMPS := $(VENV)/stamps
# Of tests: most wait for a server more than they compute.
JOBS := $(shell echo $$(($$(nproc) * 3 / 2)))

export PATH := /usr/lib/ccache:$(PATH)
# The wheel, made in another folder, is of the same C.
export CCACHE_NOHASHDIR := 1

# What is compiled. The stamp's name holds the names of all files: one that comes, goes or moves means a build too.
CORE := $(shell find fastdns plugins -type f \( -name '*.pyx' -o -name '*.pxd' -o -name '*.h' \))
BENCH := $(shell find bench -type f \( -name '*.pyx' -o -name '*.pxd' -o -name '*.h' \))
RECIPE := setup.py pyproject.toml tools/compilation.py
VARIANT := $(FASTDNS_DEBUG) $(FASTDNS_SANITIZE) $(FASTDNS_COVERAGE)
# There once make quic has run.
QUIC := $(wildcard build/quic/libfastdns_quic.a)
# There once make wheel-libraries has run.
LIBRARIES := $(wildcard build/libraries/versions.json)
stamp = $(STAMPS)/$(1)-$(shell echo $(sort $(2)) $(VARIANT) $(QUIC) $(LIBRARIES) | cksum | cut -d' ' -f1)
ALL_BUILT := $(call stamp,all,$(CORE) $(BENCH))
SAMPLE_BUILT := $(call stamp,sample,$(CORE))

.PHONY: build
build: $(ALL_BUILT) $(STAMPS)/editable ## .venv with everything compiled in place, .venv/bin/fastdns

# What serves the sample cluster: the plugins that its Corefile names.
.PHONY: sample
sample: $(firstword $(wildcard $(ALL_BUILT)) $(SAMPLE_BUILT)) $(STAMPS)/editable

$(ALL_BUILT): $(CORE) $(BENCH) $(RECIPE) $(QUIC) $(LIBRARIES) | $(STAMPS)/build-requirements
	@$(BIN)/python setup.py -q build_ext --inplace
	@rm -f $(STAMPS)/all-* && touch $@

$(SAMPLE_BUILT): $(CORE) fastdns/sample/Corefile $(RECIPE) $(QUIC) $(LIBRARIES) | $(STAMPS)/build-requirements
	@FASTDNS_COMPILE=sample $(BIN)/python setup.py -q build_ext --inplace
	@rm -f $(STAMPS)/sample-* && touch $@

# The commands and the package's metadata. Nothing is compiled again for them.
$(STAMPS)/editable: $(RECIPE) $(wildcard bench/cli.py) | $(STAMPS)/build-requirements
	@FASTDNS_COMPILE=nothing $(PIP) install --no-build-isolation --no-deps -e .
	@touch $@

# Requirements by what needs them: build is for compiling and serving, the others are extras of pyproject.toml.
$(STAMPS)/%-requirements: pyproject.toml tools/requirements.py | $(STAMPS)/venv
	@$(BIN)/python tools/requirements.py $* > $@.txt && $(PIP) install --no-compile -r $@.txt && touch $@

$(STAMPS)/venv: | $(STAMPS)/system
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(STAMPS)/system: tools/system_packages.py
	@$(PYTHON) tools/system_packages.py build
	@mkdir -p $(STAMPS) && touch $@

# quiche and BoringSSL, which quic:// and https3:// are written over: by cargo, in some minutes. What is built from then on has them.
.PHONY: quic
quic: | $(STAMPS)/quic-system ## the library of DNS over QUIC and over HTTP/3, for the next make build
	@$(PYTHON) tools/quic_library.py

$(STAMPS)/quic-system: tools/system_packages.py
	@$(PYTHON) tools/system_packages.py quic
	@mkdir -p $(STAMPS) && touch $@

# OpenSSL and nghttp2 as released wheels have them, in place of the system's: in some minutes. What is built from then on is linked with them.
.PHONY: wheel-libraries
wheel-libraries: ## the OpenSSL and nghttp2 of released wheels, for the next make build and make wheel
	@$(PYTHON) tools/system_packages.py wheel
	@$(PYTHON) tools/wheel_libraries.py

.PHONY: run
run: sample ## serves the sample cluster on 127.0.0.1:5353 and prints queries to try
	@exec $(BIN)/python tools/sample.py run $(BIN)/fastdns

.PHONY: ask
ask: ## asks the sample cluster that make run serves: make ask Q='NAME TYPE', or everything
	@$(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) tools/sample.py ask $(Q)

# The programs that tests start.
.PHONY: programs
programs:
	@$(PYTHON) tools/system_packages.py test

# Most of their time is waiting, so as many at once as there are processors; what measures is alone.
.PHONY: test
test: programs quic $(STAMPS)/test-requirements ## the tests, but for the slow ones
	@$(MAKE) -s --no-print-directory build
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m "not slow and not timing and not memory"
	$(BIN)/python -m pytest -m "not slow and (timing or memory)"

.PHONY: pictures
pictures: build $(STAMPS)/test-requirements ## the pictures of the console and of fastdns top, in docs/pictures
	FASTDNS_PICTURES=docs/pictures $(BIN)/python -m pytest -q -m slow tests/plugins/console/test_pictures.py

.PHONY: slow
slow: build $(STAMPS)/test-requirements ## the tests of many seconds: packages built, large clusters
	$(BIN)/python -m pytest -m slow

# make night PARTS="soak reloads" runs some. A run that was interrupted goes on where it was; the page is build/night/results.md.
.PHONY: night
night: programs quic $(STAMPS)/test-requirements ## everything slow, in parts of less than two hours, and one page of results
	@$(MAKE) -s --no-print-directory build
	$(BIN)/python tools/night.py $(PARTS)

# make bench UPDATE=1 writes the numbers down, make bench K=cache measures some.
.PHONY: bench
bench: build $(STAMPS)/test-requirements $(STAMPS)/bench-requirements ## micro-benchmarks, compared with what is written down for this kind of processor
	$(BIN)/fastdns-bench micro $(if $(UPDATE),--update) $(if $(K),-k "$(K)")

.PHONY: lint
lint: build $(STAMPS)/test-requirements $(STAMPS)/lint-requirements ## ruff, mypy, cython-lint
	$(BIN)/ruff check .
	$(BIN)/mypy
	tools/cython_lint.sh

.PHONY: format
format: $(STAMPS)/lint-requirements ## ruff's layout and import order
	$(BIN)/ruff check -q --fix .
	$(BIN)/ruff format .

# A link that leads nowhere fails.
.PHONY: site
site: $(STAMPS)/site-requirements ## the pages as a site with search, in build/site
	$(BIN)/python -m mkdocs build -q

.PHONY: wheel
wheel: quic build $(STAMPS)/wheel-requirements ## sdist in dist/, the wheel made from it and repaired in wheelhouse/
	rm -rf dist wheelhouse
	@mkdir -p build && FASTDNS_QUIC=$(CURDIR)/build/quic FASTDNS_LIBRARIES=$(CURDIR)/build/libraries $(BIN)/python -m build --no-isolation --outdir dist . > build/wheel.log 2>&1 || { cat build/wheel.log; exit 1; }
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m auditwheel repair --strip --wheel-dir wheelhouse dist/*.whl
	$(BIN)/python tools/licenses.py wheel wheelhouse/*.whl
	$(BIN)/python -m twine check --strict dist/*.tar.gz wheelhouse/*.whl

# The versions and digests of Python packages that wheels, the image and the site are made with. Others than these are refused there.
.PHONY: locks
locks: $(STAMPS)/lock-requirements ## tools/locks: what wheels, the image and the site are made with, as of today
	for part in release serve clouds site; do \
		$(BIN)/python tools/requirements.py $$part | $(BIN)/python -m piptools compile -q -U --generate-hashes --allow-unsafe --strip-extras \
			--no-header --no-annotate --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options -o tools/locks/$$part.txt - || exit 1; \
	done

# The tests against a build with AddressSanitizer and UndefinedBehaviorSanitizer, apart from the ordinary one.
# make sanitize TESTS=tests/wire runs some.
SANITIZERS ?= address,undefined
TESTS ?= tests
SANITIZED := build/sanitized
.PHONY: sanitize
sanitize: build $(STAMPS)/test-requirements ## the tests against a build with ASan, LSan and UBSan
	FASTDNS_SANITIZE=$(SANITIZERS) $(BIN)/python setup.py -q build --build-lib $(SANITIZED)
	tools/with_sanitizers.sh $(BIN)/python -m pytest --capture=sys -o pythonpath="$(SANITIZED) ." -o timeout=600 -m "not slow and not memory and not timing" $(TESTS)

# What workers, writers and Python's threads share, watched by ThreadSanitizer. make tsan TESTS=tests/index/test_index.py runs some.
THREADED := tests/system tests/index tests/executor tests/engine/test_engine.py tests/engine/test_tcp.py tests/engine/test_handshake.py tests/tls tests/telemetry tests/proxy \
	tests/httpd/test_listener.py tests/server/test_commands.py tests/robustness/test_reload.py tests/robustness/test_parking.py tests/robustness/test_python_plugins.py tests/plugins
.PHONY: tsan
tsan: build $(STAMPS)/test-requirements ## the tests of what threads share against a build with TSan
	FASTDNS_SANITIZE=thread $(BIN)/python setup.py -q build --build-lib build/threads
	FASTDNS_SANITIZE=thread tools/with_sanitizers.sh $(BIN)/python -m pytest -o pythonpath="build/threads ." -o timeout=600 \
		-m "not slow and not memory and not timing" $(if $(filter file,$(origin TESTS)),$(THREADED),$(TESTS))

# What compiles for aarch64, and passes there in an emulator, which proves nothing of its memory order. make aarch64 TESTS=tests/wire runs some.
.PHONY: aarch64
aarch64: build ## a build for aarch64, and tests of it in QEMU
	@$(PYTHON) tools/system_packages.py aarch64
	$(BIN)/python tools/aarch64.py $(if $(filter file,$(origin TESTS)),,$(TESTS))

# The tests against a build without optimisation, with bounds checks and counters of live memory (fastdns/system/debug.pyi), apart from the ordinary one.
.PHONY: debug
debug: build ## the tests against a debug build
	FASTDNS_DEBUG=1 $(BIN)/python setup.py -q build --build-lib build/debug
	PYTHONPATH="$(CURDIR)/build/debug" FASTDNS_BIN="$(CURDIR)/$(BIN)/python -P -m fastdns" $(BIN)/python -m pytest -o pythonpath="build/debug ." -o timeout=600 \
		-m "not slow and not memory and not timing" $(TESTS)

# Coverage-guided: each target of tests/fuzz/targets.py for FUZZ_SECONDS under libFuzzer, over modules that clang has compiled with ASan and UBSan, and
# then mutated packets. make fuzz-targets FUZZ="packet name" FUZZ_SECONDS=3600 runs some of the first alone.
FUZZ ?=
FUZZ_SECONDS ?= 60
FUZZER := $(BIN)/python -m tests.fuzz $(FUZZ)
.PHONY: fuzz fuzz-build fuzz-targets fuzz-minimise fuzz-coverage fuzz-packets
fuzz: fuzz-targets fuzz-packets ## fuzz targets over native code, then mutated packets against the build with ASan and UBSan

fuzz-build: build $(STAMPS)/test-requirements $(STAMPS)/fuzz-system
	@CC=clang FASTDNS_COMPILE=fuzz FASTDNS_SANITIZE=fuzzer-no-link,address,undefined $(BIN)/python setup.py -q build_ext --build-lib build/fuzz

fuzz-targets: fuzz-build
	$(FUZZER) --seconds $(FUZZ_SECONDS)

fuzz-minimise: fuzz-build ## what make fuzz has found, into the corpora of tests/fuzz
	$(FUZZER) --minimise

fuzz-coverage: fuzz-build ## what the corpora of tests/fuzz reach
	$(FUZZER) --coverage

$(STAMPS)/fuzz-system: tools/system_packages.py
	@$(PYTHON) tools/system_packages.py fuzz
	@mkdir -p $(STAMPS) && touch $@

# Mutated packets and upstream replies thrown at a server built with the sanitizers (tests/fuzz/packets.py): make fuzz-packets PACKETS=1000000 SEED=7
PACKETS ?= 1000000
SEED ?= 1
fuzz-packets: build $(STAMPS)/test-requirements ## mutated packets against the build with ASan and UBSan
	FASTDNS_SANITIZE=$(SANITIZERS) $(BIN)/python setup.py -q build --build-lib $(SANITIZED)
	tools/with_sanitizers.sh $(BIN)/python -m tests.fuzz.packets $(PACKETS) $(SEED)

# Random zones, as Knot, NSD, BIND and an installed CoreDNS answer from them, and forward and cache before Unbound: make differential SEED=7 ZONES=2000
ZONES ?= 500
.PHONY: differential
differential: programs build $(STAMPS)/test-requirements ## answers compared with those of other servers
	$(BIN)/python -m tests.differential --seed $(SEED) --zones $(ZONES)
	$(BIN)/python -m tests.differential --resolvers --seed $(SEED) --zones $(ZONES)

# R19: load, changes, reloads and outages at once: make soak MINUTES=4320 for the 72 hours of the goal
MINUTES ?= 60
.PHONY: soak
soak: build $(STAMPS)/test-requirements ## everything at once for MINUTES, with all answers checked
	$(BIN)/python -m tests.soak $(MINUTES)

# Faults of every kind, one after the other, as a seed says: make chaos MINUTES=120 SEED=7
.PHONY: chaos
chaos: build $(STAMPS)/test-requirements ## faults of every kind for MINUTES, with all answers checked
	$(BIN)/python -m tests.chaos $(MINUTES) $(SEED)

# Kubernetes on this machine, with this project's image and CoreDNS's in turn as its DNS server (docs/cluster-tests.md), as root: an hour with nothing
# cached. make cluster KEEP=1 leaves it with a shell, make cluster CLUSTER="--only rolling --proxy-mode iptables" runs some.
CLUSTER ?=
.PHONY: cluster
cluster: ## Kubernetes' own tests of DNS in a cluster of its own, and one page of results
	$(PYTHON) -m tests.cluster $(if $(KEEP),--keep) $(CLUSTER)

.PHONY: clean
clean: ## back to a fresh clone, but for .venv
	rm -rf fastdns/plugin.cfg build dist wheelhouse *.egg-info .pytest_cache .mypy_cache .ruff_cache .benchmarks
	find fastdns plugins bench \( -name '*.so' -o -name '*.c' -o -name '*.cpp' -o -name '__pycache__' \) -prune -exec rm -rf {} +
	find tests \( -name '*.so' -o -name '__pycache__' \) -prune -exec rm -rf {} +

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 17
