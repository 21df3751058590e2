#!/bin/sh
# Builds what is shipped for glibc 2.28 or newer: `build.sh x86_64|aarch64`, from the workspace's
# root. The programs are in target/ARCH-unknown-linux-gnu/release, without symbols.
set -eu
here=$(dirname "$0") target=$1-unknown-linux-gnu tools=$PWD/target/cross-tools
python3 -m venv --clear "$tools"
"$tools/bin/pip" install --quiet --require-hashes --requirement "$here/requirements.txt"
rustup target add "$target"
export PATH="$tools/bin:$PATH" CARGO_ZIGBUILD_CACHE_DIR="$PWD/target/zig"
export CARGO_PROFILE_RELEASE_DEBUG=false CARGO_PROFILE_RELEASE_STRIP=symbols
exec "${CARGO_ZIGBUILD:-cargo-zigbuild}" zigbuild --release --target "$target.2.28" \
    -p tdekit -p tdekit-bench-run -p tdekit-sqlite-vfs -p tdekit-mariadb-plugin
