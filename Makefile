# Everything that is done to Millrace, by name. `make` lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

ENGINE := deploy/embedded/node_modules/.installed
BROWSER := ingest/browser/bundle/manifest.tsv
CONSOLE := admin/console/bundle/manifest.tsv
CONSOLE_PACKAGES := admin/console/node_modules/.installed
CONSOLE_SOURCES := $(shell find admin/console/src admin/console/public admin/console/scripts -type f) \
	admin/console/index.html admin/console/vite.config.ts admin/console/svelte.config.js
DENY_VERSION := 0.20.2
FUZZ_VERSION := 0.13.2
AUDIT_VERSION := 0.22.2
MUTANTS_VERSION := 27.1.0
# A copy of RustSec's advisories, for machines that have one; without it deny.toml's versions hold.
ADVISORIES ?= $(wildcard ../shared/advisory-db)
# Programs that run for seconds are built with little optimisation, which takes half of the time.
INSTALL := CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off \
	CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 cargo install --locked --quiet
# Which part of the mutants: k/n, as cargo mutants has it.
SHARD ?= 0/1
# Tests at a time: half as many again as there are cores, as many tests wait for servers.
TEST_THREADS ?= $(shell echo $$(( ($$(nproc) * 3 + 1) / 2 )))
# What make fuzz runs, and under which sanitizer: none is five times as fast.
TARGET ?= parse
RUNS ?= 100000000
SANITIZER ?= address
# Bytes of an input at most. Rows are cut into blocks of 64 KiB, and a frame is to have several
# sections that are longer; a segment is to have several frames. What the others look for is short.
MAX_LEN_frame := 262144
MAX_LEN_recovery := 8192
MAX_LEN ?= $(or $(MAX_LEN_$(TARGET)),2048)

## Use

.PHONY: run
run: $(ENGINE) $(BROWSER) $(CONSOLE) ## Build and start everything on this machine
	cargo run --release -- serve

.PHONY: build
build: $(BROWSER) $(CONSOLE) ## Build the release binaries: millrace and millrace-load in target/release
	cargo build --release -p millrace -p millrace-load

.PHONY: dist
dist: $(BROWSER) $(CONSOLE) ## Build what is shipped, stripped and linked as one: target/dist/millrace
	cargo build --profile dist
	strip "$${CARGO_TARGET_DIR:-target}/dist/millrace"

.PHONY: console
console: $(CONSOLE) ## Build the console's pages, which the program then holds

## Test

.PHONY: test
test: $(ENGINE) $(BROWSER) $(CONSOLE) test-setup ## Set up what tests need and run every test
	npm run --prefix admin/console --silent test
	RUST_TEST_THREADS=$(TEST_THREADS) cargo test --workspace --all-features --no-fail-fast --tests

.PHONY: screenshots
screenshots: $(ENGINE) $(CONSOLE) ## Take a picture of every screen of the console into admin/console/screenshots
	cargo build --release -p millrace
	target="$${CARGO_TARGET_DIR:-target}" && \
		node admin/console/tests/browser/demo.mjs "$$(realpath "$$target/release/millrace")"

.PHONY: test-setup
test-setup: $(ENGINE) $(BROWSER) ## Install what tests need beside Rust: PostgreSQL, Chromium, Python and Node clients
	deploy/test-setup.sh

.PHONY: torture
torture: $(ENGINE) test-setup ## Test for hours what tests do for minutes; KILLS=n, SEED=n
	$(MAKE) torture-log
	$(MAKE) torture-crash
	$(MAKE) torture-power
	$(MAKE) torture-away
	$(MAKE) torture-import
	$(MAKE) torture-keys
	$(MAKE) torture-schedules
	$(MAKE) torture-persons
	$(MAKE) torture-exports
	$(MAKE) torture-schema
	$(MAKE) torture-cluster

.PHONY: torture-log
torture-log: # Let the log's disk fail in a million ways, and damage every byte; mutate what is read, look for what costs most
	MILLRACE_LOG_CASES=24000 MILLRACE_LOG_DAMAGE_BYTES=65536 CARGO_PROFILE_DEV_OPT_LEVEL=3 \
		cargo test -p millrace-log --test it -- --nocapture synced_frames_survive each_damaged_byte
	MILLRACE_FUZZ_RUNS=10000000 MILLRACE_FUZZ_TIME=1 CARGO_PROFILE_DEV_OPT_LEVEL=3 \
		cargo test -p millrace-fuzz --test it -- --nocapture

.PHONY: torture-crash
torture-crash: # Kill servers at random and at every fail point, and count what they acknowledged
	cargo build -p millrace -p millrace-load --features millrace/failpoints
	target="$${CARGO_TARGET_DIR:-target}" && "$$target/debug/millrace-load" crash \
		--server "$$target/debug/millrace" --jobs 4 \
		--kills $(or $(KILLS),1000)$(if $(SEED), --seed $(SEED))
	MILLRACE_SHIP_KILLS=$(or $(KILLS),200) CARGO_PROFILE_DEV_OPT_LEVEL=3 \
		cargo test -p millrace-pipeline --test it ship_crashes

.PHONY: torture-power
torture-power: # Cut the power of loop-mounted ext4 and XFS, ours and ClickHouse's; needs root
	cargo build -p millrace -p millrace-load --features millrace/failpoints
	target="$${CARGO_TARGET_DIR:-target}" && for file_system in ext4 xfs; do \
		"$$target/debug/millrace-load" crash --power --file-system $$file_system \
			--server "$$target/debug/millrace" --jobs 4 \
			--kills $(or $(KILLS),1000)$(if $(SEED), --seed $(SEED)) || exit 1; \
	done

.PHONY: torture-away
torture-away: # Take ClickHouse away in every way, each for two minutes
	MILLRACE_AWAY_SECONDS=120 CARGO_PROFILE_DEV_OPT_LEVEL=3 \
		cargo test -p millrace --test it clickhouse_outage:: -- --test-threads=1 --nocapture

.PHONY: torture-import
torture-import: # Kill an importer of a million events again and again; read files of a gigabyte
	MILLRACE_IMPORT_EVENTS=1000000 MILLRACE_IMPORT_KILLS=$(or $(KILLS),100) CARGO_PROFILE_DEV_OPT_LEVEL=3 \
		cargo test -p millrace --all-features --test it resume:: -- --nocapture
	MILLRACE_RESEND_CASES=2000 CARGO_PROFILE_DEV_OPT_LEVEL=3 \
		cargo test -p millrace-import --test it in_any_order
	MILLRACE_FILE_MIB=1000 CARGO_PROFILE_DEV_OPT_LEVEL=3 cargo test -p millrace-sources --test memory

.PHONY: torture-keys
torture-keys: # Send ten million keys of nobody, and look at the memory of the server and of its cache
	MILLRACE_RANDOM_KEYS=10000000 CARGO_PROFILE_DEV_OPT_LEVEL=3 \
		cargo test -p millrace --all-features --test it hostile::keys -- --nocapture
	MILLRACE_RANDOM_KEYS=10000000 CARGO_PROFILE_DEV_OPT_LEVEL=3 \
		cargo test -p millrace-ingest --lib random_keys

.PHONY: torture-schedules
torture-schedules: # Let threads go on in a million orders on the way into the log
	MILLRACE_SCHEDULES=112000 CARGO_PROFILE_DEV_OPT_LEVEL=3 cargo test -p millrace-pipeline --lib thread_schedules

.PHONY: torture-persons
torture-persons: # Apply person updates in thousands of ways, with processes that die, and compare with a model
	MILLRACE_PERSON_CASES=2000 CARGO_PROFILE_DEV_OPT_LEVEL=3 \
		cargo test -p millrace-persons --test it any_updates_in_any_batches_give_the_models_result

.PHONY: torture-exports
torture-exports: # Kill processes that export again and again; run all exports of a full organization
	MILLRACE_EXPORT_KILLS=200 MILLRACE_EXPORTS=200 MILLRACE_INTERVAL_STEP=1 CARGO_PROFILE_DEV_OPT_LEVEL=3 \
		cargo test -p millrace-exports --test it -- --nocapture processes_die full_organization backfills

.PHONY: torture-cluster
torture-cluster: # Kill shards and nodes of a cluster, cut and slow its links, and count; ten million events to 1, 2 and 3 shards
	MILLRACE_CLUSTER_KILLS=$(or $(KILLS),200)$(if $(SEED), MILLRACE_CLUSTER_SEED=$(SEED)) \
		MILLRACE_CLUSTER_EVENTS=10000000 \
		CARGO_PROFILE_DEV_OPT_LEVEL=3 cargo test -p millrace --test it cluster:: -- \
		--test-threads=1 --nocapture

.PHONY: torture-schema
torture-schema: # Send the organization API every request that Schemathesis makes up; read all pages of a full organization
	MILLRACE_SCHEMA_ALL=1 MILLRACE_ALL_PAGES=1 cargo test -p millrace-admin --test it -- --nocapture \
		schemathesis_finds every_response_of_a_full_organization

.PHONY: attack
attack: $(ENGINE) ## Attack a server for an hour with all that is known, beside a tenant who works; MINUTES=n, SEED=n
	cargo build --release -p millrace -p millrace-load
	target="$${CARGO_TARGET_DIR:-target}" && "$$target/release/millrace-load" attack \
		--server "$$target/release/millrace" --minutes $(or $(MINUTES),60)$(if $(SEED), --seed $(SEED))

.PHONY: mutants
mutants: ## Change the log's code and that of permissions, a mutant at a time, and see a test fail; SHARD=0/8
	@cargo mutants --version 2>/dev/null | grep -q ' $(MUTANTS_VERSION)$$' || \
		cargo install --locked --quiet cargo-mutants --version $(MUTANTS_VERSION)
	cargo mutants --workspace --shard $(SHARD) --sharding round-robin --timeout 300 \
		--output $${CARGO_TARGET_DIR:-target}

.PHONY: fuzz
fuzz: ## Fuzz one target on nightly, guided by coverage: TARGET=parse RUNS=100000000
	@cargo fuzz --version >/dev/null 2>&1 || \
		cargo install --locked --quiet cargo-fuzz --version $(FUZZ_VERSION)
	mkdir -p ingest/fuzz/libfuzzer/found/$(TARGET)
	cargo +nightly fuzz run --fuzz-dir ingest/fuzz/libfuzzer --sanitizer $(SANITIZER) $(TARGET) \
		ingest/fuzz/libfuzzer/found/$(TARGET) ingest/fuzz/corpus/$(TARGET) \
		-- -runs=$(RUNS) -max_len=$(MAX_LEN) -print_final_stats=1

.PHONY: check
check: $(CONSOLE_PACKAGES) ## Format, lints, dependency rules, advisories
	npm run --prefix admin/console --silent check
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	@cargo deny --version 2>/dev/null | grep -q ' $(DENY_VERSION)$$' || \
		$(INSTALL) cargo-deny --version $(DENY_VERSION)
	cargo deny check bans licenses sources
ifeq ($(ADVISORIES),)
	@echo "NOT CHECKED: advisories beyond the versions in deny.toml;" \
		"ADVISORIES=<copy of RustSec's database> does"
else
	@cargo audit --version 2>/dev/null | grep -q ' $(AUDIT_VERSION)$$' || \
		$(INSTALL) cargo-audit --version $(AUDIT_VERSION)
	cargo audit --db $(ADVISORIES) --no-fetch --stale --deny warnings
endif

.PHONY: bench
bench: $(ENGINE) ## Measure everything and write benches/RESULTS.md; QUICK=1 to see that it works, written apart
	cargo bench -p millrace-benches $(if $(QUICK),-- --quick)
	cargo build --release -p millrace -p millrace-load
	target="$${CARGO_TARGET_DIR:-target}" && "$$target/release/millrace-load" suite \
		--server "$$target/release/millrace" --disk-dir "$$target" \
		--criterion "$$target/criterion"$(if $(QUICK), --quick)

.PHONY: bench-peers
bench-peers: $(ENGINE) build ## Measure other services beside Millrace, for an hour, and write the results page anew; QUICK=1
	target="$${CARGO_TARGET_DIR:-target}" && benches/peers/run.sh --work "$$target/peers" \
		--server "$$target/release/millrace" --load "$$target/release/millrace-load"$(if $(QUICK), --quick)
ifndef QUICK
	"$${CARGO_TARGET_DIR:-target}/release/millrace-load" page
endif

.PHONY: bench-columns
bench-columns: $(ENGINE) build ## Compare properties as text, JSON and columns over 20 million events, and write the page; QUICK=1
	target="$${CARGO_TARGET_DIR:-target}" && python3 benches/columns --work "$$target/columns" \
		--server "$$target/release/millrace"$(if $(QUICK), --quick)
ifndef QUICK
	"$${CARGO_TARGET_DIR:-target}/release/millrace-load" page
endif

.PHONY: bench-check
bench-check: ## Count instructions of the hot path and compare; UPDATE=1 writes the counts anew
	deploy/valgrind-setup.sh
	cargo build --release --quiet -p millrace-benches --bin bench-check
	target="$${CARGO_TARGET_DIR:-target}" && "$$target/release/bench-check"$(if $(UPDATE), --update)

## Keep

.PHONY: clean
clean: ## Remove what was built; data stays
	cargo clean
	rm -rf deploy/embedded/node_modules ingest/browser/node_modules ingest/browser/bundle/* \
		admin/console/node_modules admin/console/bundle/* admin/console/dist .test-env

.PHONY: help
help:
	@awk 'BEGIN {FS = ":.*## "} /^## / {printf "\n%s\n", substr($$0, 4)} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(ENGINE): deploy/embedded/package-lock.json
	@echo "Fetching the embedded ClickHouse (178 MB), once"
	npm ci --prefix deploy/embedded --no-audit --no-fund --silent
	@touch $@

$(BROWSER): ingest/browser/package-lock.json ingest/browser/pack.mjs
	@echo "Fetching posthog-js for pages (10 MB), once"
	npm ci --prefix ingest/browser --no-audit --no-fund --silent
	node ingest/browser/pack.mjs

$(CONSOLE_PACKAGES): admin/console/package-lock.json
	@echo "Fetching what the console is built with (100 MB), once"
	npm ci --prefix admin/console --no-audit --no-fund --silent
	@touch $@

$(CONSOLE): $(CONSOLE_PACKAGES) $(CONSOLE_SOURCES)
	npm run --prefix admin/console --silent build
