# FreeTDS's programs against one server. The caller has set `port` and `password`, and works in a
# directory of its own.

export LC_ALL=C.UTF-8 FREETDSCONF=$PWD/freetds.conf
limit=120 # seconds that one program may take

# Writes the programs' configuration of the server and its encryption: off, request or require.
configure() { # ENCRYPTION [CERTIFICATE]
  {
    printf '[served]\nhost = localhost\nport = %s\ntds version = 7.4\n' "$port"
    printf 'client charset = UTF-8\ntext size = 16777216\nencryption = %s\n' "$1"
    if [ $# -gt 1 ]; then
      printf 'ca file = %s\ncheck certificate hostname = yes\n' "$2"
    fi
  } >freetds.conf
}

fail() {
  printf 'freetds: %s\n' "$*" >&2
  exit 1
}

# Prints the server's answer to a batch, including errors.
ask() { # SQL [DATABASE]
  printf '%s\ngo\nexit\n' "$1" |
    timeout "$limit" tsql -S served -U sa -P "$password" -D "${2-app}" -o q 2>&1
}

# As `ask`, for a batch that must not fail.
must() {
  local answer
  answer=$(ask "$@") || fail "tsql ended with $?: $1: $answer"
  if grep -Eq 'severity (1[1-9]|2[0-9])|^Error' <<<"$answer"; then fail "$1: $answer"; fi
  printf '%s\n' "$answer"
}

expect() { # ANSWER WANTED
  grep -qF -- "$2" <<<"$1" || fail "no '$2' in: $(head -c 2000 <<<"$1")"
}

# A batch must fail with an error of this number.
refused() { # NUMBER SQL
  expect "$(ask "$2")" "Msg $1 (severity"
}

bulk() { # TABLE in|out FILE OPTION...
  timeout "$limit" freebcp "app.$1" "$2" "$3" -S served -U sa -P "$password" "${@:4}" 2>&1 ||
    fail "freebcp $*: failed"
}
