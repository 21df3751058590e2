# Opens databases that tdekit encrypted, with the stock sqlite3 shell.
#
# Source this in ~/.bashrc or ~/.zshrc; then `sqlite3 app.db` opens plain and encrypted databases
# alike. A connection keeps the VFS that it was opened with, so the extension has to be loaded
# before the shell opens the file. That a URI names the file delays the opening until it is used;
# the extension is loaded on the shell's second connection (`.connection`, since SQLite 3.37). A
# file that does not open then ends the shell with an error, as the stock shell ends. `.open`
# instead leaves a database in memory in its place, to which one writes in vain.

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

# A path as a URI. What is one already, no file, or a database in memory, stays as it is.
tdekit_uri() {
  local text="$1" scheme="file:"
  case "$text" in
    "" | :memory: | file:*) printf '%s' "$text"; return ;;
    /*) scheme="file://" ;;
  esac
  text="${text//\%/%25}"
  text="${text//\?/%3f}"
  printf '%s%s' "$scheme" "${text//\#/%23}"
}

sqlite3() {
  local extension name file="" init="$HOME/.sqliterc"
  local -a flags=() commands=()
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
        command sqlite3 "${flags[@]}" "${commands[@]}" "$@"
        return ;;
      cmd) commands+=("$1" "$2"); shift 2 ;;
      init) init="$2"; shift 2 ;;
      separator | newline | nullvalue | vfs | mmap | maxsize | heap | escape | nonce)
        flags+=("$1" "$2"); shift 2 ;;
      lookaside | pagecache) flags+=("$1" "$2" "$3"); shift 3 ;;
      *) flags+=("$1"); shift ;;
    esac
  done
  if [ $# -gt 0 ]; then
    file="$1"
    shift
  fi
  # A file of the user's own commands may open the database: it is read after the load.
  if [ -f "$init" ]; then
    flags+=(-init /dev/null)
    commands=(-cmd ".read $(tdekit_quote "$init")" "${commands[@]}")
  fi
  # The stock shell opens a file that is there even when nothing is asked of it.
  if [ -e "$file" ]; then
    commands=(-cmd "PRAGMA tdekit_open" "${commands[@]}")
  fi
  # Without the extension a database that does not exist yet would be created plain: stop there.
  command sqlite3 "${flags[@]}" -cmd ".bail on" -cmd ".connection 1" \
    -cmd ".load $(tdekit_quote "$extension")" -cmd ".connection 0" -cmd ".connection close 1" \
    -cmd ".bail off" "${commands[@]}" "$(tdekit_uri "$file")" "$@"
}
