#!/bin/sh
# Proves programs of another processor: `prove.sh EMULATOR ROOT`, where ROOT holds the files of
# Debian packages of that processor. It prints a line and exits with 0, or reports the failure.
set -eu
emulator=$1 root=$2
fail() { echo "emulated packages: $*" >&2; exit 1; }
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
run() { program=$1; shift; "$emulator" -L "$root" "$root$program" "$@"; }
tdekit() { run /usr/bin/tdekit "$@"; }
for name in $(env | sed -n 's/^\(TDEKIT_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
export HOME="$home" TDEKIT_HOME="$home/keys" TDEKIT_PASSWORD='only for this proof'
extension=$root/usr/lib/tdekit/libtdekit_sqlite.so
through() {
    run /usr/bin/sqlite3 -batch -bail -cmd ".connection 1" -cmd ".load $extension" \
        -cmd ".connection 0" "file://$home/$1" "$2" 2>&1
}

case $(tdekit --version) in tdekit\ *) ;; *) fail "no version" ;; esac
run /usr/bin/sqlite3 app.db "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT);
    WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 2000)
    INSERT INTO t SELECT i, 'a name that no raw file may show' FROM c"
tdekit key init >/dev/null
tdekit cert create Proof 2>/dev/null >&2
for algorithm in AES_128 AES_256 AEGIS_128X2 AEGIS_256X2; do
    cp app.db $algorithm.db
    tdekit encrypt $algorithm.db --certificate Proof --algorithm $algorithm >/dev/null 2>&1 ||
        fail "encrypt by $algorithm"
    ! grep -q 'a name' $algorithm.db || fail "$algorithm: the encrypted file shows a name"
    count=$(through $algorithm.db "PRAGMA journal_mode=wal; INSERT INTO t(name) VALUES('more');
        PRAGMA integrity_check; SELECT count(*) FROM t")
    [ "$count" = "$(printf 'wal\nok\n2001')" ] || fail "$algorithm: $count"
done
run /usr/bin/python3 -I -S -c "
import sqlite3
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension('$extension')
assert sqlite3.connect('AES_256.db').execute('SELECT count(*) FROM t').fetchone() == (2001,)" ||
    fail "Python's own module"
tdekit backup AES_256.db --to app.bak >/dev/null 2>&1 || fail "backup"
tdekit verify app.bak >/dev/null 2>&1 || fail "verify"
tdekit restore app.bak --to restored.db >/dev/null 2>&1 || fail "restore"
[ "$(through restored.db "SELECT count(*) FROM t")" = 2001 ] || fail "the restored database"
# Both processors write and read the same bytes.
if [ -n "${NATIVE_TDEKIT-}" ]; then
    "$NATIVE_TDEKIT" decrypt AES_256.db >/dev/null 2>&1 || fail "this machine's own command"
fi
printf changed | dd of=AES_128.db bs=1 seek=20500 conv=notrunc 2>/dev/null
said=$(through AES_128.db "SELECT count(*) FROM t WHERE name LIKE 'a%'") &&
    fail "a changed file was read: $said"
said=$(TDEKIT_PASSWORD=another through AEGIS_128X2.db "SELECT count(*) FROM t") &&
    fail "opened by another password: $said"
echo "emulated packages: ok"
