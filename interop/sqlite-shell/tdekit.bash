# Opens databases that tdekit encrypted, with the stock sqlite3 shell.
#
# Source this in ~/.bashrc or ~/.zshrc; then `sqlite3 app.db` opens plain and encrypted databases
# alike. The shell opens the file it is given before it reads ~/.sqliterc or any -cmd, and a
# connection keeps the VFS it was opened with: so the function opens the file after the load.

# The extension's path: TDEKIT_EXTENSION, or what `tdekit sqlite path` prints.
tdekit_extension() {
  if [ -n "${TDEKIT_EXTENSION:-}" ]; then
    printf '%s\n' "$TDEKIT_EXTENSION"
  else
    tdekit sqlite path
  fi
}

# A string in the quotes of the shell's dot commands.
tdekit_quote() {
  local text="${1//\\/\\\\}"
  printf '"%s"' "${text//\"/\\\"}"
}

sqlite3() {
  local extension name mode="" file=":memory:"
  local -a options=()
  extension="$(tdekit_extension)" || return
  while [ $# -gt 0 ]; do
    case "$1" in
      -*) ;;
      *) break ;;
    esac
    name="${1#-}"
    name="${name#-}"
    case "$name" in
      A*) # The archive mode takes all that follows and opens its own file.
        command sqlite3 "${options[@]}" "$@"
        return ;;
      readonly) mode="--readonly "; shift ;;
      cmd | init | separator | newline | nullvalue | vfs | mmap | maxsize | heap | escape | nonce)
        options+=("$1" "$2"); shift 2 ;;
      lookaside | pagecache) options+=("$1" "$2" "$3"); shift 3 ;;
      *) options+=("$1"); shift ;;
    esac
  done
  if [ $# -gt 0 ]; then
    file="$1"
    shift
  fi
  # Without the extension a database that does not exist yet would be created plain: stop there.
  command sqlite3 -cmd ".bail on" -cmd ".load $(tdekit_quote "$extension")" \
    -cmd ".open $mode$(tdekit_quote "$file")" -cmd ".bail off" "${options[@]}" :memory: "$@"
}
