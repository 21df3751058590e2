# A MariaDB server of the document's own, without a network. Its clients read ~/.my.cnf.
mariadb_data="$HOME/mariadb"
mariadb_socket="$HOME/mariadb.sock"
mariadb_options="$HOME/mariadb-server.cnf"
mkdir "$mariadb_data" "$HOME/plugins" "$HOME/conf.d"
printf '!includedir %s\n' "$HOME/conf.d" >"$mariadb_options"
printf '[client]\nsocket=%s\nuser=root\n[mariadb-backup]\nsocket=%s\nuser=root\ndatadir=%s\n' \
    "$mariadb_socket" "$mariadb_socket" "$mariadb_data" >"$HOME/.my.cnf"
mariadb-install-db --no-defaults --datadir="$mariadb_data" --user="$(id -un)" --skip-test-db \
    --auth-root-authentication-method=normal >"$HOME/mariadb-install.log" 2>&1

mariadb_restart() {
    if [ -n "${mariadb_pid:-}" ]; then
        mariadb-admin shutdown
        wait "$mariadb_pid"
    fi
    /usr/sbin/mariadbd --defaults-file="$mariadb_options" --datadir="$mariadb_data" \
        --plugin-dir="$HOME/plugins" --socket="$mariadb_socket" --skip-networking \
        --user="$(id -un)" \
        --log-error="$HOME/mariadb.log" </dev/null >/dev/null 2>&1 &
    mariadb_pid=$!
    for _ in {1..300}; do
        mariadb-admin ping >/dev/null 2>&1 && return 0
        kill -0 "$mariadb_pid" 2>/dev/null || break
        sleep 0.1
    done
    tail -20 "$HOME/mariadb.log"
    return 1
}
mariadb_restart
