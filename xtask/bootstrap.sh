#!/usr/bin/env bash
# Installs the requirements of cargo itself: a linker, and Rust in the version of Cargo.toml;
# with `bench`, also the SQLite that the bench measures. The rest is `cargo xtask setup`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

needed="$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)"

install() { # PACKAGE...
  local root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || return 1
    root=(sudo)
    [ -t 2 ] || root+=(--non-interactive)
  fi
  command -v apt-get >/dev/null || return 1
  echo "setup: installing $*" >&2
  "${root[@]}" apt-get update >&2 &&
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install --yes --no-install-recommends "$@" >&2
}

if ! command -v cc >/dev/null && ! install gcc libc6-dev; then
  echo "error: a C compiler (cc) is missing and cannot be installed from here" >&2
  echo "hint: as root, apt-get install gcc libc6-dev" >&2
  exit 1
fi

if ! command -v cargo >/dev/null; then
  # Not every release of Debian has rustup; Debian's cargo is too old.
  install rustup && rustup toolchain install stable --profile minimal -c clippy -c rustfmt || {
    echo "error: cargo is missing and this system's packages do not bring rustup" >&2
    echo "hint: install Rust $needed or newer as https://rustup.rs tells, then again" >&2
    exit 1
  }
fi

found="$(cargo --version | cut -d' ' -f2)"
if [ "$(printf '%s\n' "$needed" "$found" | sort -V | head -n 1)" != "$needed" ]; then
  echo "error: Rust $needed or newer is needed; cargo here is $found" >&2
  echo "hint: rustup update stable" >&2
  exit 1
fi

if [ "${1:-}" = bench ] && ! command -v sqlite3 >/dev/null && ! install libsqlite3-0 sqlite3; then
  echo "error: the system's SQLite (sqlite3) is missing and cannot be installed from here" >&2
  echo "hint: as root, apt-get install libsqlite3-0 sqlite3" >&2
  exit 1
fi
