# `make bench` and `make test` are all that a fresh machine needs: each installs what is missing,
# builds, and runs. The rest is `cargo xtask`.

SHELL := /bin/bash
# Rust's and Go's installers put their programs here, which may not be on the path yet.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/local/go/bin

BUILT := $(or $(CARGO_TARGET_DIR),target)/release
# These are enough for the bench on SQLite; servers need further programs, and clients.
BENCH := -p tdekit -p tdekit-bench-run -p tdekit-sqlite-vfs
MARIADB := $(if $(findstring mariadb,$(ARGS)),-p tdekit-mariadb-plugin --features tdekit/mariadb)
TDS := $(if $(findstring messages,$(ARGS))$(findstring sql,$(ARGS)),\
  -p tdekit-serve --features tdekit-bench-run/servers)

# What only starts and waits for measured work is built quickly, unless a client is measured too.
QUICK := $(if $(MARIADB)$(TDS),,--config xtask/bench.toml)

.PHONY: help bench build test test-all check setup interop bootstrap

help:
	@echo 'make bench     build the extension and the bench in release, then price encryption: a table'
	@echo '               and a report file; make bench DB=app.db does so on a database of yours,'
	@echo '               which is only read; ARGS="..." is passed to tdekit bench'
	@echo 'make build     build all that is shipped in release, in target/release'
	@echo 'make test      install what the tests need, and run the short form of all (20 minutes)'
	@echo 'make test-all  run everything in full, packages and FIPS too (hours)'
	@echo 'make check     format, rules, lints, documents, unit tests; every warning is an error'
	@echo 'cargo xtask --help shows the rest'

bench:
	@xtask/bootstrap.sh bench
	@echo 'bench: building the extension and the bench, once: some 4 minutes on 2 processors' >&2
	cargo build --release --no-default-features $(QUICK) $(BENCH) $(MARIADB) $(TDS)
	@$(BUILT)/tdekit bench $(if $(DB),"$(DB)") $(or $(ARGS),$(if $(DB),,--max-time 60))

build: bootstrap
	@cargo xtask build

test: bootstrap
	@cargo xtask test

test-all: bootstrap
	@cargo xtask test --all

check: bootstrap
	@cargo xtask setup --purpose build
	@cargo xtask check

setup: bootstrap
	@cargo xtask setup

interop: bootstrap
	@cargo xtask interop

bootstrap:
	@xtask/bootstrap.sh
