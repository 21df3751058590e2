#!/usr/bin/env bash
# Uses one database through the stock sqlite3 shell; see tests/interop/README.md.
set -euo pipefail

database="${*: -1}"
directory="$(dirname "$database")"
marker="${INTEROP_MARKER:?}"

if [ -n "${INTEROP_PRELOAD:-}" ] && [ -n "${TDEKIT_EXTENSION:-}" ]; then
  sqlite3() { LD_PRELOAD="$INTEROP_PRELOAD" command sqlite3 "$@"; }
  way="with the extension, preloaded" files_that_show="none"
elif [ -n "${TDEKIT_EXTENSION:-}" ]; then
  # shellcheck source-path=SCRIPTDIR source=tdekit.bash
  . "$(dirname "${BASH_SOURCE[0]}")/tdekit.bash"
  way="with the extension" files_that_show="none"
else
  way="without the extension" files_that_show="some"
fi

# Prints the shell's output for this file.
if [ "$1" = --afresh ]; then
  sqlite3 "$database" "SELECT count(*) FROM sqlite_master"
  exit
fi

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "sqlite-shell: FAILED: $*" >&2
  exit 1
}

expect() {
  [ "$2" = "$3" ] || fail "$1: found '$2', expected '$3'"
}

# No file beside the database contains the marker; in a plain run at least one does.
cat >"$scratch/scan" <<SCAN
cd '$directory' && grep -l -a -F -e '$marker' -- * >/dev/null && echo some || echo none
SCAN

# 512 bytes of binary data, for BLOBs that are slices of them.
for ((j = 0; j < 512; j++)); do
  printf '%b' "\\x$(printf '%02x' $((j * 13 & 255)))"
done >"$scratch/bytes"

write_and_change() { # MODE
  cat <<SQL
PRAGMA journal_mode=$1;
CREATE TABLE note_$1(id INTEGER PRIMARY KEY, body TEXT, data BLOB, n REAL);
BEGIN;
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<1000)
INSERT INTO note_$1 SELECT i, 'žluťoučký 表 🔑 '||i||' $marker',
  substr(readfile('$scratch/bytes'), 1+i%200, 300), i/4.0 FROM c;
COMMIT;
SELECT body FROM note_$1 WHERE id=500;
SELECT lower(hex(substr(data, 1, 4))), length(data), typeof(data) FROM note_$1 WHERE id=501;
UPDATE note_$1 SET n=-n, body=body||'!' WHERE id%10=0;
SELECT changes();
DELETE FROM note_$1 WHERE id%10=5;
SELECT changes();
BEGIN; DELETE FROM note_$1; ROLLBACK;
SELECT count(*), sum(n) FROM note_$1;
SQL
}

expected_changes() { # MODE
  cat <<TEXT
$1
žluťoučký 表 🔑 500 $marker
212e3b48|300|blob
100
100
900|87375.0
TEXT
}

expect "seed" "$(sqlite3 "$database" "SELECT count(*), sum(id) FROM seed")" "500|125250"
expect "row of seed" "$(sqlite3 "$database" "SELECT name FROM seed WHERE id=7")" "seed 7 $marker"

found="$({
  write_and_change wal
  echo ".shell test -s '$database-wal' && bash '$scratch/scan'"
  write_and_change delete
  cat <<SQL
PRAGMA cache_size=10;
BEGIN;
UPDATE note_delete SET n=n+1, body=body||'?';
.shell test -s '$database-journal' && bash '$scratch/scan'
ROLLBACK;
ATTACH '$directory/side.db' AS side;
BEGIN;
INSERT INTO side.side SELECT id+100, 'from main' FROM note_delete WHERE id<=20;
UPDATE note_delete SET n=0 WHERE id=1;
COMMIT;
SELECT count(*) FROM side.side;
SELECT count(*) FROM side.side s JOIN note_delete n ON s.id=n.id+100;
DETACH side;
PRAGMA integrity_check;
SQL
} | sqlite3 "$database")"
expect "the session" "$found" "$(
  expected_changes wal
  echo "$files_that_show"
  expected_changes delete
  printf '%s\n' "$files_that_show" 28 18 ok
)"

expect "files that show the marker at rest" "$(bash "$scratch/scan")" "$files_that_show"
expect "the attached file stays plain" "$(head -c 15 "$directory/side.db")" "SQLite format 3"
if [ -n "${TDEKIT_EXTENSION:-}" ]; then
  if said="$(command sqlite3 "$database" .schema 2>&1)"; then
    fail "a shell without the extension reads the file"
  fi
  case "$said" in
    *"file is not a database"*) ;;
    *) fail "said without the extension: $said" ;;
  esac
fi
# Without its key the file ends the shell, and nothing is written anywhere.
if [ -n "${TDEKIT_EXTENSION:-}" ]; then
  lost="CREATE TABLE lost(x); INSERT INTO lost VALUES(1); SELECT 'inserted';"
  for password in "" "wrong"; do
    reason="wrong password for the key store"
    [ -n "$password" ] || reason="nothing is configured to open the key store"
    if said="$(echo "$lost" | TDEKIT_PASSWORD="$password" sqlite3 "$database" 2>&1)"; then
      fail "a shell without the key goes on: $said"
    fi
    case "$said" in
      *inserted*) fail "a shell without the key writes: $said" ;;
      *"authorization denied: tdekit: "*"$reason"*) ;;
      *) fail "said without the key: $said" ;;
    esac
  done
fi
version="$(command sqlite3 :memory: "SELECT sqlite_version()")"
echo "sqlite-shell: ok (SQLite $version, $way)"
