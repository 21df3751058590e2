# Opens databases that tdekit encrypted, with the stock sqlite3 shell.
#
# Source this in ~/.bashrc or ~/.zshrc; then `sqlite3 app.db` opens plain and encrypted databases
# alike. A connection keeps the VFS that it was opened with, so the extension has to be loaded
# before the shell opens the file. That a URI names the file delays the opening until it is used;
# the extension is loaded on the shell's second connection (`.connection`, since SQLite 3.37). A
# file that does not open then ends the shell with an error, as the stock shell ends. `.open`
# instead leaves a database in memory in its place, to which one writes in vain: it serves only for
# what is in memory anyway.

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

# What a file is by its bytes, as the stock shell looks: for a URI it looks at none. The second copy
# of an encrypted database's header counts where the first is damaged.
tdekit_kind() {
  if [ -f "$1" ]; then
    case "$(head -c 15 "$1" 2>/dev/null | tr -d '\0')" in
      "SQLite format 3") echo database; return ;;
      "tdekit database") echo encrypted; return ;;
    esac
    if [ "$(tail -c +8193 "$1" 2>/dev/null | head -c 15 | tr -d '\0')" = "tdekit database" ]; then
      echo encrypted
    elif [ "$(tail -c 25 "$1" 2>/dev/null | head -c 17 | tr -d '\0')" = "Start-Of-SQLite3-" ]; then
      echo append
    elif [ "$(tail -c 22 "$1" 2>/dev/null | head -c 4 | tr -d '\0')" = $'PK\005\006' ]; then
      echo zip
    fi
  fi
}

tdekit_refuse() {
  printf 'Error: %s\n' "$1" >&2
  return 1
}

# Reads a command line into the variables of `sqlite3` below, as the stock shell does: options may
# stand behind the file, and of those that say how to open it the last counts. What lacks a value is
# left for the stock shell to tell.
tdekit_arguments() {
  local name values
  while [ $# -gt 0 ]; do
    case "$1" in
      -*) name="${1#-}" name="${name#-}" ;;
      *)
        if [ -z "$named" ]; then
          named=1 file="$1" before=("${after[@]}") after=()
        else
          after+=("$1")
        fi
        shift
        continue ;;
    esac
    values=0
    case "$name" in
      A*) archive=1 after+=("$@"); return ;; # All that follows is the archive's.
      help | version) stock=1 ;;
      append | deserialize | readonly | zip) mode="$name"; shift; continue ;;
      init | maxsize)
        if [ $# -gt 1 ]; then
          if [ "$name" = init ]; then init="$2" given=1; else maxsize="$2"; fi
          shift 2
          continue
        fi ;;
      bail) bail=on ;;
      cmd | separator | newline | nullvalue | nonce | vfs | mmap | heap) values=1 ;;
      escape | screenwidth | sorterref | threadsafe) values=1 ;;
      lookaside | pagecache) values=2 ;;
    esac
    if [ $# -le "$values" ]; then
      after+=("$@")
      return
    fi
    while [ "$values" -ge 0 ]; do
      after+=("$1")
      shift
      values=$((values - 1))
    done
  done
}

# How the file is opened, by `mode` or else as the stock shell finds out: sets `target`, which takes
# its place on the command line, and `open`, commands for what the shell itself reads into memory.
tdekit_opening() {
  local kind
  kind="$(tdekit_kind "$file")"
  if [ -z "$mode" ]; then
    case "$kind" in append | zip) mode="$kind" ;; esac
    case "$archive$file" in 1*.[zZ][iI][pP]) [ -s "$file" ] || mode=zip ;; esac
  fi
  target="$(tdekit_uri "$file")"
  case "$mode" in
    append)
      # `apndvfs` stands on the VFS from before the load: it would write plain pages behind an
      # encrypted database, and makes plain ones only.
      case "${TDEKIT_ENCRYPT_NEW:+new }$kind" in
        *encrypted)
          tdekit_refuse "$file is encrypted: -append would add a plain database to it"
          return ;;
        *append | *database) ;;
        new*)
          tdekit_refuse "TDEKIT_ENCRYPT_NEW is set, and -append makes no encrypted database"
          return ;;
      esac
      case "$target" in
        "" | :memory:) ;;
        file:*\?*) target="$target&vfs=apndvfs" ;;
        *) target="$target?vfs=apndvfs" ;;
      esac ;;
    deserialize)
      # The stock shell reads the file itself, and takes one that it cannot read for an empty
      # database. An encrypted one is copied to memory by SQLite, which decrypts it.
      case "$file" in
        file:*) tdekit_refuse "-deserialize takes a path: $file is a URI"; return ;;
      esac
      if [ -e "$file" ] && [ ! -r "$file" ]; then
        tdekit_refuse "cannot read $file"
        return
      elif [ "$kind" = encrypted ] && [ -n "$maxsize" ]; then
        tdekit_refuse "$file is encrypted: -maxsize holds for plain databases only"
        return
      elif [ "$kind" = encrypted ]; then
        open=(-cmd ".restore main $(tdekit_quote "$target")")
      elif [ -e "$file" ]; then
        open=(-cmd ".open --deserialize ${maxsize:+--maxsize $maxsize} $(tdekit_quote "$file")")
      fi
      target=":memory:" ;;
    zip)
      open=(-cmd ".open --zip $(tdekit_quote "${file:-:memory:}")")
      target=":memory:" ;;
    readonly) open=(-readonly) ;;
  esac
}

sqlite3() {
  local extension mode="" maxsize="" archive="" bail=off stock="" named="" file="" target=""
  local init="$HOME/.sqliterc" given=""
  local -a before=() after=() open=()
  tdekit_arguments "$@"
  if [ -n "$stock" ]; then
    command sqlite3 "$@"
    return
  fi
  extension="$(tdekit_extension)" || return
  tdekit_opening || return
  # The stock shell opens a file that is there even when nothing is asked of it.
  if [ "$target" != ":memory:" ] && [ -e "$file" ]; then
    open+=(-cmd "PRAGMA tdekit_open")
  fi
  # A file of the user's own commands may use the database: it is read after the load.
  if [ -f "$init" ]; then
    open=(-init /dev/null "${open[@]}" -cmd ".bail $bail" -cmd ".read $(tdekit_quote "$init")")
  elif [ -n "$given" ]; then
    open=(-init "$init" "${open[@]}")
  fi
  if [ -n "$named" ]; then
    before+=("$target")
  fi
  # Without the extension a database that does not exist yet would be created plain: stop there.
  command sqlite3 -cmd ".bail on" -cmd ".connection 1" -cmd ".load $(tdekit_quote "$extension")" \
    -cmd ".connection 0" -cmd ".connection close 1" "${open[@]}" -cmd ".bail $bail" \
    "${before[@]}" "${after[@]}"
}
