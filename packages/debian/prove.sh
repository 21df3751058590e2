#!/bin/sh
# Proves the Debian packages as a user installs them: `prove.sh PACKAGE...`, run as root in a
# separate root directory, in which the packages are not installed yet. It prints a line and exits
# with 0, or reports the failure.
set -eu

fail() { echo "debian packages: $*" >&2; exit 1; }
# Parts that run as an unprivileged user.
as() {
    who=$1 home=$2
    shift 2
    (cd "$home" && exec setpriv --reuid="$who" --regid="$who" --clear-groups \
        env HOME="$home" TDEKIT_HOME="$home/keys" TDEKIT_PASSWORD='only for this proof' "$@")
}
extension=/usr/lib/tdekit/libtdekit_sqlite.so
user=/srv/user
# The stock shell: the extension is loaded on the second connection, and the URI is opened when it
# is first used.
read_back() {
    as nobody-else $user "$@" sqlite3 -batch -bail -cmd ".connection 1" -cmd ".load $extension" \
        -cmd ".connection 0" "file://$user/app.db" \
        "SELECT count(*) FROM t WHERE name LIKE 'a name%'" 2>&1
}

useradd --create-home --home-dir $user nobody-else
dpkg --install "$@" >/dev/null
dpkg --verify tdekit tdekit-mariadb tdekit-mysql tdekit-serve

# The command and the extension.
tdekit --version >/dev/null
[ "$(tdekit sqlite path)" = $extension ] || fail "the extension is not at $extension"
tdekit bench --help >/dev/null
as nobody-else $user sqlite3 app.db "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT);
    WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 500)
    INSERT INTO t SELECT i, 'a name that no raw file may show' FROM c"
as nobody-else $user tdekit key init >/dev/null
as nobody-else $user tdekit cert create Proof >/dev/null
as nobody-else $user tdekit encrypt app.db --certificate Proof >/dev/null
! grep -q 'a name' $user/app.db || fail "the encrypted file shows a name"
[ "$(read_back)" = 500 ] || fail "through the extension: $(read_back)"
as nobody-else $user sqlite3 app.db "SELECT count(*) FROM t" >/tmp/said 2>&1 &&
    fail "opened without the extension"
grep -q 'not a database' /tmp/said || fail "without the extension: $(cat /tmp/said)"
read_back env TDEKIT_PASSWORD=another >/tmp/said && fail "opened by another password"
grep -q 'authorization denied: .*wrong password' /tmp/said ||
    fail "another password: $(cat /tmp/said)"
preload=/usr/lib/tdekit/libtdekit_preload.so
rows=$(as nobody-else $user env LD_PRELOAD=$preload sqlite3 app.db "SELECT count(*) FROM t")
[ "$rows" = 500 ] ||
    fail "not opened with the extension before the shell"
as nobody-else $user env LD_PRELOAD=$preload TDEKIT_PASSWORD=another \
    sqlite3 app.db "SELECT count(*) FROM t" >/tmp/said 2>&1 && fail "preloaded: another password"
read_back env -u TDEKIT_PASSWORD >/tmp/said && fail "opened without a key"
grep -q 'authorization denied' /tmp/said || fail "without a key: $(cat /tmp/said)"
cp $user/app.db $user/whole.db
# One byte of one page; it is random, and in 1 of 256 files it already has this value.
offset=20500
[ "$(dd if=$user/app.db bs=1 skip=$offset count=1 2>/dev/null)" != x ] || offset=20501
printf x | dd of=$user/app.db bs=1 seek=$offset conv=notrunc 2>/dev/null
read_back >/tmp/said && fail "a changed file was read"
mv $user/whole.db $user/app.db
chown nobody-else $user/app.db

# Files for the shells and `man`.
bash -n /usr/share/bash-completion/completions/tdekit
zsh -n /usr/share/zsh/vendor-completions/_tdekit
fish --no-execute /usr/share/fish/vendor_completions.d/tdekit.fish
completed=$(bash -c '. /usr/share/bash-completion/completions/tdekit
    COMP_WORDS=(tdekit encr) COMP_CWORD=1
    _clap_complete_tdekit tdekit encr tdekit; echo "${COMPREPLY[*]}"')
[ "$completed" = encrypt ] || fail "bash completes encr to: $completed"
pages=0
for page in $(dpkg -L tdekit | grep '/man/man1/.*\.gz$'); do
    said=$(MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l "$page" 2>&1 >/tmp/page)
    [ -z "$said" ] || fail "$page: $said"
    grep -q '^SYNOPSIS' /tmp/page || fail "$page has no synopsis"
    pages=$((pages + 1))
done
[ $pages -gt 40 ] || fail "only $pages manual pages"

# The documents, with their search.
html=/usr/share/doc/tdekit/html
for file in index.html docs/keys.html docs/format/page.html; do
    grep -q searchindex $html/$file || fail "$html/$file has no search"
done
grep -q 'href="docs/backup.html' $html/index.html || fail "the first page links no document"

# The units: parsed by systemd, and the programs that they start.
for unit in tdekit-serve.service tdekit-backup@app.service tdekit-backup@app.timer \
    tdekit-restore-test@app.service tdekit-restore-test@app.timer tdekit-replicate.service; do
    said=$(systemd-analyze verify --man=no $unit 2>&1) || fail "$unit: $said"
    case $said in *tdekit*) fail "$unit: $said" ;; esac
done
[ "$(stat -c '%U %a' /var/lib/tdekit/keys)" = 'tdekit 700' ] || fail "the keys' directory"
as tdekit /var/lib/tdekit tdekit key init >/dev/null
as tdekit /var/lib/tdekit tdekit cert create Server >/dev/null
cp $user/app.db /tmp/app.db
as tdekit /var/lib/tdekit sqlite3 databases/app.db "CREATE TABLE t(a); INSERT INTO t VALUES(1)"
sed 's/^OPTIONS=.*/OPTIONS="--certificate Server"/' \
    /usr/share/doc/tdekit/examples/tdekit-backup-app >/etc/default/tdekit-backup-app
start=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/tdekit-backup@.service)
for run in 1 2; do
    as tdekit /var/lib/tdekit sh -ec ". /etc/default/tdekit-backup-app; $start" >/dev/null ||
        fail "run $run of the backup unit's command"
done
sets=$(as tdekit /var/lib/tdekit sh -ec 'tdekit verify backups/app-*.bak' | grep -c '^') ||
    fail "the backup is not whole"
[ "$sets" -ge 2 ] || fail "two runs of the backup unit left no two sets"
start=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/tdekit-restore-test@.service)
said=$(as tdekit /var/lib/tdekit sh -ec ". /etc/default/tdekit-backup-app; $start") ||
    fail "the restore test: $said"
case $said in *'of app.db'*'quick_check ok'*) ;; *) fail "the restore test: $said" ;; esac
as tdekit /var/lib/tdekit sqlite3 databases/app.db "PRAGMA journal_mode = WAL" >/dev/null
install -D -m 0644 /usr/share/doc/tdekit/examples/replicate.toml /etc/tdekit/replicate.toml
start=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/tdekit-replicate.service)
as tdekit /var/lib/tdekit sh -ec "$start --once" || fail "the command of the replicate unit"
as tdekit /var/lib/tdekit tdekit verify backups/archive-app >/dev/null || fail "the archive"
TDEKIT_LOGIN_PASSWORD='only for this proof' as tdekit /var/lib/tdekit tdekit serve login add sa
start=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/tdekit-serve.service)
(SERVE_OPTIONS='--listen 127.0.0.1:0' as tdekit /var/lib/tdekit timeout 60 sh -ec "exec $start" \
    >/tmp/serving 2>&1 || echo "ended with $?" >>/tmp/serving) &
tries=0
until grep -q 'listening on' /tmp/serving; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || fail "the serve unit's command: $(cat /tmp/serving)"
    sleep 0.1
done
pkill -TERM --uid tdekit --exact tdekit-serve
wait
! grep -q 'ended with' /tmp/serving || fail "the serve unit's command: $(cat /tmp/serving)"

# The plugin, in the installed server.
mkdir /tmp/maria && chown mysql: /tmp/maria
export TDEKIT_HOME=/etc/tdekit TDEKIT_PASSWORD='only for this proof'
tdekit key init >/dev/null
tdekit cert create ServerCert >/dev/null
tdekit mariadb install --certificate ServerCert >/tmp/said
grep -q "tdekit.so belongs to the system's package" /tmp/said || fail "install: $(cat /tmp/said)"
mariadb-install-db --user=mysql --datadir=/tmp/maria --skip-test-db --force >/tmp/said 2>&1 ||
    fail "the server with the plugin: $(tail -20 /tmp/said)"
serve_sql() {
    mariadbd --user=mysql --datadir=/tmp/maria --skip-networking --bootstrap >/tmp/said 2>&1
}
printf '%s;\n' 'CREATE DATABASE d' 'CREATE TABLE d.t(name CHAR(99)) ENGINE=InnoDB' \
    "INSERT INTO d.t VALUES('a name that no raw file may show')" | serve_sql ||
    fail "the server writes: $(cat /tmp/said)"
[ -s /tmp/maria/d/t.ibd ] || fail "the server made no table"
! grep -rqa 'a name that no raw' /tmp/maria || fail "the server's files show a name"

# The keyring component, in a MySQL server that is unpacked in /mysql, with its own loader.
mysql=$(echo /mysql/*/usr)
plugins=/usr/lib/mysql/plugin
mysqld() {
    "$libraries"/ld-linux-*.so.* --library-path "$libraries" /usr/local/sbin/mysqld --no-defaults \
        --user=mysql --plugin-dir=$plugins --lc-messages-dir=$mysql/share/mysql \
        --datadir=/tmp/my "$@" >/tmp/said 2>&1
}
prove_component() {
    libraries=$(echo $mysql/lib/*-linux-gnu)
    chmod a+x "$libraries"/ld-linux-*.so.*
    # The server looks for its manifest beside the name by which it is started.
    ln -s $mysql/sbin/mysqld /usr/local/sbin/mysqld
    mkdir /tmp/my && chown mysql: /tmp/my
    tdekit mysql install --certificate ServerCert --mysqld /usr/local/sbin/mysqld \
        --plugin-dir $plugins >/tmp/said || fail "mysql install: $(cat /tmp/said)"
    grep -q "component_keyring_tdekit.so belongs to the system's package" /tmp/said ||
        fail "mysql install: $(cat /tmp/said)"
    printf '%s;\n' 'CREATE DATABASE d' "CREATE TABLE d.t(name CHAR(99)) ENCRYPTION='Y'" \
        "INSERT INTO d.t VALUES('a name that no raw file may show')" >/tmp/init.sql
    mysqld --initialize-insecure --innodb-redo-log-encrypt=ON --innodb-undo-log-encrypt=ON \
        --innodb-doublewrite=OFF --init-file=/tmp/init.sql ||
        fail "MySQL with the component: $(tail -20 /tmp/said)"
    [ -s /tmp/my/d/t.ibd ] || fail "MySQL made no table"
    ! grep -qa 'a name that no raw' /tmp/my/d/t.ibd || fail "MySQL's files show a name"
    tdekit mysql keys | grep -q INNODBKey || fail "the key store has no key of MySQL"
    ln -s /usr/local/sbin/mysqld.my /usr/sbin/mysqld.my
    dpkg --remove tdekit-mysql >/tmp/said 2>&1 && fail "the component of a server was removed"
    grep -q 'tdekit mysql uninstall' /tmp/said || fail "refused without a hint: $(cat /tmp/said)"
    rm /usr/sbin/mysqld.my
    tdekit mysql uninstall --force --mysqld /usr/local/sbin/mysqld --plugin-dir $plugins >/dev/null
    [ -e $plugins/component_keyring_tdekit.so ] || fail "uninstall took a file of the package"
}
[ ! -d $mysql ] || prove_component

# Removal.
dpkg --remove tdekit-mariadb >/tmp/said 2>&1 && fail "the plugin of a server was removed"
grep -q 'tdekit mariadb uninstall' /tmp/said || fail "refused without a hint: $(cat /tmp/said)"
# No server runs that could be asked.
tdekit mariadb uninstall --force >/dev/null
[ -e /usr/lib/mysql/plugin/tdekit.so ] || fail "uninstall took a file of the package"
sums() { find $user /var/lib/tdekit /etc/tdekit -type f -exec sha256sum {} + | sort; }
sums >/tmp/before
[ "$(grep -c keystore.tdk /tmp/before)" -eq 3 ] || fail "three key stores: $(cat /tmp/before)"
dpkg --remove tdekit-serve >/dev/null
tdekit serve $user >/tmp/said 2>&1 && fail "served without the package"
grep -q 'install the package tdekit-serve' /tmp/said || fail "no hint: $(cat /tmp/said)"
dpkg --purge tdekit-mysql tdekit-mariadb tdekit-serve tdekit >/dev/null 2>&1 ||
    fail "the packages cannot be purged"
sums >/tmp/after
cmp /tmp/before /tmp/after || fail "a removal changed keys or databases"
left=$(find /usr /etc -name '*tdekit*' ! -path /etc/tdekit ! -path '/etc/default/tdekit-backup-app')
[ -z "$left" ] || fail "left behind: $left"
echo "debian packages: ok ($pages manual pages)"
