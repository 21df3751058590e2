#!/usr/bin/env bash
# Uses a database through a program with windows, as docs/recipes.md describes; see
# tests/interop/README.md. `recipes.bash TOOL write|read DATABASE`; INTEROP_PRELOAD is the library.
set -euo pipefail

PRELOAD="${INTEROP_PRELOAD:?}"
work="$2" database="$3"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
# No display and no settings of the user.
export QT_QPA_PLATFORM=offscreen HOME="$scratch" XDG_RUNTIME_DIR="$scratch"

# recipe
browse() {
  LD_PRELOAD="$PRELOAD" sqlitebrowser "$@"
}
# end

# The stock shell, with the same library before it.
ask() {
  LD_PRELOAD="$PRELOAD" sqlite3 -batch "$@"
}

# Has DB Browser carry out a file of SQL on the database, which it does when it has opened it; it
# stays open. Ends it when the test says that the work is there, or after some seconds.
carry_out() { # SQL-FILE TEST...
  # A group of its own: the function runs in a shell between.
  set -m
  browse --sql "$1" "$database" >"$scratch/said" 2>&1 &
  set +m
  local browser=$! tries=0
  shift
  until "$@" || [ $((tries += 1)) -gt 60 ]; do
    sleep 0.2
  done
  kill -- "-$browser" 2>/dev/null || true
  wait "$browser" 2>/dev/null || true
}

is_written() {
  [ "$(ask "$database" "SELECT count(*) FROM note" 2>/dev/null)" = 100 ]
}

is_read() {
  [ "$(sqlite3 -batch "$scratch/found.db" "SELECT count(*) FROM found" 2>/dev/null)" = 1 ]
}

case "$1 $work" in
  "db-browser write")
    # DB Browser opens files that are there; this one is encrypted from its first page on.
    ask "$database" "PRAGMA user_version = 1"
    cat >"$scratch/make.sql" <<SQL
CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT NOT NULL);
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 100)
  INSERT INTO note SELECT i, 'note ' || i || ' ${INTEROP_MARKER:?}' FROM c;
SQL
    carry_out "$scratch/make.sql" is_written
    is_written || { cat "$scratch/said" >&2; exit 1; }
    ;;
  "db-browser read")
    cat >"$scratch/read.sql" <<SQL
ATTACH '$scratch/found.db' AS found;
CREATE TABLE found.found AS SELECT count(*) AS rows, sum(id) AS sum FROM note;
SQL
    carry_out "$scratch/read.sql" is_read
    if ! is_read; then
      # It asks in a window, which nobody sees here; the shell says why.
      ask "$database" "SELECT count(*) FROM note" >&2 || true
      exit 1
    fi
    sqlite3 -batch -separator ' ' "$scratch/found.db" "SELECT rows, sum FROM found"
    ;;
  *)
    echo "recipes-desktop: no such work: $1 $work" >&2
    exit 2
    ;;
esac
