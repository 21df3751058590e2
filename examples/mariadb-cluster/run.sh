#!/usr/bin/env bash
# A Galera cluster of three encrypted MariaDB nodes on loopback: starts it, loads it by sysbench,
# kills a node, lets it rejoin by a state transfer of mariadb-backup while the key is rotated, and
# compares checksums. All files are in a temporary directory, which is removed in the end.
#
#   examples/mariadb-cluster/run.sh [--short] [--keep] [--plugin tdekit|file_key_management]
#
# Needs Debian's mariadb-server, mariadb-backup, galera-4, socat and sysbench, and the command:
# $TDEKIT, or tdekit on the search path.
set -euo pipefail

PATH="$PATH:/usr/sbin"
TDEKIT=${TDEKIT:-tdekit}
PLUGIN=tdekit SECONDS_OF_LOAD=20 ROWS=20000 TABLES=4 KEEP=
while (($#)); do
  case $1 in
    --short) SECONDS_OF_LOAD=4 ROWS=2000 TABLES=2 ;;
    --keep) KEEP=yes ;;
    --plugin) PLUGIN=$2; shift ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done

DIR=$(mktemp -d "${TMPDIR:-/tmp}/tdekit-cluster-XXXXXX")
declare -A PID=()
LOAD=

finish() {
  local code=$?
  if [[ -n $LOAD ]]; then kill "$LOAD" 2>/dev/null || true; fi
  # Each node leads a process group, which includes its state transfers.
  for pid in "${PID[@]}"; do kill -9 -- "-$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  if ((code != 0)); then
    for log in "$DIR"/node*/error.log; do
      echo "--- $log" >&2
      tail -n 25 "$log" >&2 || true
    done
  fi
  if [[ -n $KEEP ]]; then echo "kept: $DIR"; else rm -rf "$DIR"; fi
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '%(%T)T  %s\n' -1 "$*"; }

# Four free ports for each node: clients, group, incremental and full state transfer.
ports() {
  python3 - "$1" <<'END'
import socket, sys
held = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in held:
    one.bind(("127.0.0.1", 0))
print(*[one.getsockname()[1] for one in held])
END
}
read -r -a PORT <<<"$(ports 12)"
client_port() { echo "${PORT[$1 * 4 - 4]}"; }
group_port() { echo "${PORT[$1 * 4 - 3]}"; }

sql() {
  local node=$1
  shift
  mariadb --no-defaults --socket="$DIR/s$node" --user=root --batch --skip-column-names \
    --execute "$*"
}

# The keys: every node must have every version, since a state transfer copies encrypted files as
# they are. Here the nodes share one store; docs/scale.md describes alternatives.
make_keys() {
  if [[ $PLUGIN == file_key_management ]]; then
    { printf '1;'; head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; echo; } >"$DIR/keys.txt"
    chmod 600 "$DIR/keys.txt"
    cat >"$DIR/plugin.cnf" <<END
[mariadbd]
plugin-load-add=file_key_management
file-key-management-filename=$DIR/keys.txt
file-key-management-encryption-algorithm=AES_CTR
END
    return
  fi
  export TDEKIT_HOME=$DIR/home TDEKIT_PASSWORD=${TDEKIT_PASSWORD:-only-for-the-example}
  "$TDEKIT" key init >/dev/null
  "$TDEKIT" cert create ServerCert >/dev/null
  mkdir "$DIR/plugins"
  "$TDEKIT" mariadb install --certificate ServerCert --plugin-dir "$DIR/plugins" \
    --option-file "$DIR/plugin.cnf" --server-user "$(id -un)" >/dev/null
  echo "plugin-dir=$DIR/plugins" >>"$DIR/plugin.cnf"
}

node_options() {
  local node=$1 at=$(($1 * 4 - 4)) members=
  for other in 1 2 3; do members+="${members:+,}127.0.0.1:$(group_port "$other")"; done
  local provider="gmcast.listen_addr=tcp://127.0.0.1:$(group_port "$node")"
  provider+=";ist.recv_addr=127.0.0.1:${PORT[at + 2]}"
  provider+=";gcache.dir=$DIR/node$node/gcache;gcache.size=32M"
  provider+=";evs.keepalive_period=PT0.5S;evs.suspect_timeout=PT3S;evs.inactive_timeout=PT8S"
  cat <<END
!include $DIR/plugin.cnf
[mariadbd]
datadir=$DIR/node$node/data
socket=$DIR/s$node
tmpdir=$DIR/node$node/tmp
pid-file=$DIR/node$node/pid
log-error=$DIR/node$node/error.log
bind-address=127.0.0.1
port=$(client_port "$node")
skip-name-resolve
max-connections=100
innodb-buffer-pool-size=64M
innodb-log-file-size=48M
innodb-flush-log-at-trx-commit=0
innodb-autoinc-lock-mode=2
innodb-encrypt-tables=FORCE
innodb-encrypt-log=ON
innodb-encryption-threads=2
encrypt-binlog=ON
encrypt-tmp-files=ON
aria-encrypt-tables=ON
binlog-format=ROW
wsrep-on=ON
wsrep-provider=/usr/lib/galera/libgalera_smm.so
wsrep-cluster-name=tdekit
wsrep-cluster-address=gcomm://$members
wsrep-node-name=node$node
wsrep-node-address=127.0.0.1:$(group_port "$node")
wsrep-sst-method=mariabackup
wsrep-sst-auth=root:
wsrep-sst-receive-address=127.0.0.1:${PORT[at + 3]}
wsrep-provider-options="$provider"
END
  if ((UID == 0)); then echo user=root; fi
}

start_node() {
  local node=$1
  shift
  node_options "$node" >"$DIR/node$node/my.cnf"
  setsid mariadbd --defaults-file="$DIR/node$node/my.cnf" "$@" >>"$DIR/node$node/out.log" 2>&1 &
  PID[$node]=$!
  for ((tries = 0; tries < 600; tries++)); do
    if [[ $(sql "$node" "SHOW STATUS LIKE 'wsrep_local_state_comment'" 2>/dev/null) == *Synced* ]]
    then return; fi
    kill -0 "${PID[$node]}" 2>/dev/null || { echo "node $node ended" >&2; return 1; }
    sleep 0.2
  done
  echo "node $node is not in step after 2 minutes" >&2
  return 1
}

sums() {
  local tables=
  for ((table = 1; table <= TABLES; table++)); do tables+="${tables:+, }sbtest$table"; done
  sql "$1" "SET SESSION wsrep_sync_wait = 15; USE sbtest; CHECKSUM TABLE $tables"
}

compare() {
  local first
  first=$(sums 1)
  for node in 2 3; do
    if [[ $(sums "$node") != "$first" ]]; then
      echo "node $node differs from node 1" >&2
      return 1
    fi
  done
  say "checksums of $TABLES tables are equal on all nodes"
}

bench() {
  sysbench oltp_read_write --db-driver=mysql --mysql-socket="$DIR/s1" --mysql-user=root \
    --mysql-db=sbtest --tables="$TABLES" --table-size="$ROWS" \
    --mysql-ignore-errors=1213,1020,1205,1062,1180 "$@"
}

make_keys
say "node 1: system tables, first of the cluster"
# Each has its own directory for temporary tables: a starting server removes those of others.
mkdir "$DIR"/node{1,2,3} "$DIR"/node{1,2,3}/{gcache,tmp}
# shellcheck disable=SC2046
mariadb-install-db --no-defaults --datadir="$DIR/node1/data" --tmpdir="$DIR/node1/tmp" \
  --skip-test-db --auth-root-authentication-method=normal \
  $( ((UID == 0)) && echo --user=root) >/dev/null
mkdir "$DIR"/node{2,3}/data
start_node 1 --wsrep-new-cluster
sql 1 "CREATE DATABASE sbtest"
bench --threads=2 prepare >/dev/null
for node in 2 3; do
  say "node $node joins: state transfer by mariadb-backup"
  start_node "$node"
done
compare

say "load on node 1 for $SECONDS_OF_LOAD s"
bench --threads=4 --time="$SECONDS_OF_LOAD" run >"$DIR/load.txt" 2>&1 &
LOAD=$!
sleep 1
say "node 3 is killed"
kill -9 -- "-${PID[3]}"
wait "${PID[3]}" 2>/dev/null || true
if [[ $PLUGIN == tdekit ]]; then
  say "the key is rotated under load"
  "$TDEKIT" mariadb rotate --no-wait --socket "$DIR/s1" --user root
  "$TDEKIT" mariadb rotate --no-wait --existing --socket "$DIR/s2" --user root
fi
wait "$LOAD"
LOAD=
grep -E 'transactions:|95th' "$DIR/load.txt" | sed 's/^ */          /'
say "node 3 rejoins"
start_node 3
compare
say "size of the cluster: $(sql 3 "SHOW STATUS LIKE 'wsrep_cluster_size'" | cut -f2)"
plain=$(sql 3 "SELECT COUNT(*) FROM information_schema.innodb_tablespaces_encryption
  WHERE NAME LIKE 'sbtest/%' AND MIN_KEY_VERSION = 0")
say "tables that are not encrypted on node 3: $plain"
[[ $plain == 0 ]]
for node in 3 2 1; do
  kill "${PID[$node]}"
  wait "${PID[$node]}" || true
  unset "PID[$node]"
done
say "done"
