# `make run` and `make test` do all of their set-up themselves.
.PHONY: run test test-full lint bench bench-check web fuzz openapi commands help

# Counts in tests are a twentieth of the full ones unless told otherwise.
export PALISADE_SCALE ?= 0.05
# Root can mount, change users and so on: a test that cannot run then fails instead of being left out.
export PALISADE_TEST_STRICT ?= $(if $(filter 0,$(shell id -u)),1)

# The launcher as it is shipped: one static program without relocations, because its start is part of every run, and with
# what a launch needs in one place (scripts/hot-functions).
STATIC = cargo rustc --release -p palisade --bin palisade -- -C target-feature=+crt-static -C relocation-model=static \
	-C "link-arg=-T$(CURDIR)/scripts/launch-order.ld"

help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: ## build what is needed and start the daemon, with one URL and a one-time set-up link
	@scripts/setup build
	cargo build -p server -p palisade -p egressd -p ledger
	@exec target/debug/palisade up

test: ## everything: format, lints, unit tests, flows, the real PostgreSQL, schemathesis, the web's types
	@scripts/setup test
	$(MAKE) --no-print-directory lint
	@if command -v npm >/dev/null 2>&1; then $(MAKE) --no-print-directory web; \
	else echo "npm is not installed: what the web uses of the API is not checked here"; fi
	cargo build --workspace
	cargo test --workspace --no-fail-fast

test-full: ## the same with full counts; takes long
	PALISADE_SCALE=1 $(MAKE) --no-print-directory test

lint: ## format and lints; licences and bans where cargo-deny is installed
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	@if command -v cargo-deny >/dev/null 2>&1; then cargo deny check bans licenses sources; \
	else echo "cargo-deny is not installed: licences and bans are not checked here"; fi

bench: ## measure, side by side with references in one run
	@scripts/setup bench
	cargo build --release -p server -p egressd -p acp_kit
	$(STATIC)
	cd bench && cargo run --release -- $(BENCH)

bench-check: ## the same, and fail when a bound is missed
	$(MAKE) --no-print-directory bench BENCH=--check

web: ## types for the web from the API description, and a check of what uses them
	@scripts/setup web
	cd web && npm ci --no-audit --no-fund && npm run check

fuzz: ## each parser of hostile bytes for a while (FUZZ_SECONDS each)
	@command -v cargo-fuzz >/dev/null 2>&1 || cargo install --locked cargo-fuzz
	cd fuzz && for target in $$(ls fuzz_targets | sed 's/\.rs$$//'); do \
	  cargo fuzz run --sanitizer none "$$target" -- -max_total_time=$${FUZZ_SECONDS:-30} || exit 1; done

openapi: ## write docs/openapi.json from the router
	UPDATE_OPENAPI=1 cargo test -p server --bin palisaded gtw_07

commands: ## write docs/commands.md from the commands' help
	UPDATE_COMMANDS=1 cargo test -p palisade reference
