# A door to `cargo xtask`, which does the work. `make bench` and `make test` are all that a fresh
# machine needs: each installs what is missing, builds, and runs.

SHELL := /bin/bash
# Rust's and Go's own installers put their programs here, and not every shell has that yet.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/local/go/bin

.PHONY: help bench test check setup interop

help:
	@echo 'make bench   build all in release, then price encryption: a table and a report file'
	@echo '             make bench DB=app.db does so on a database of yours, which is only read'
	@echo 'make test    install what the tests need, and run everything'
	@echo 'make check   format, rules, lints, documents, unit tests; every warning is an error'
	@echo 'cargo xtask --help shows the rest'

bench: bootstrap
	@cargo xtask bench $(if $(DB),"$(DB)") $(ARGS)

test: bootstrap
	@cargo xtask test

check: bootstrap
	@cargo xtask setup --purpose build
	@cargo xtask check

setup: bootstrap
	@cargo xtask setup

interop: bootstrap
	@cargo xtask interop

.PHONY: bootstrap
bootstrap:
	@xtask/bootstrap.sh
