#!/bin/sh
# Stands in for the command: it "seals" by a name before the bytes. The variables STAND_IN_*
# change its behaviour; STAND_IN_COUNT names a file that grows by a byte with each backup.
verb=$1
shift
[ "$1" = --help ] && exit "${STAND_IN_HELP:-0}"
file=$1
cipher=none
while [ $# -gt 0 ]; do
    case $1 in
    --to) target=$2 ;;
    --encryption) cipher=$2 ;;
    esac
    shift
done
case $verb in
key | cert) exit 0 ;;
backup)
    [ -n "$STAND_IN_REFUSE" ] && { echo "error: refused" >&2; exit 1; }
    [ -n "$STAND_IN_PLAIN" ] && cipher=none
    if [ -n "$STAND_IN_COUNT" ]; then
        printf x >> "$STAND_IN_COUNT"
        [ "$(wc -c < "$STAND_IN_COUNT")" -lt "${STAND_IN_LAST:-1000000}" ] || case $STAND_IN_END in
        full) cat "$file" > /dev/full || exit 7 ;;
        kill) kill -KILL $$ ;;
        hang)
            echo $$ > "$STAND_IN_COUNT.pid"
            exec sleep 600
            ;;
        esac
    fi
    { printf '%-16s' "$cipher" && cat "$file"; } > "$target"
    ;;
restore)
    tail -c +17 "$file" > "$target"
    if [ -n "$STAND_IN_LOSE" ]; then printf x >> "$target"; fi
    ;;
inspect)
    cipher=$(head -c 16 "$file" | tr -d ' ')
    [ "$cipher" = none ] && name=null || name="\"$cipher\""
    printf '{"sets": [{"position": 1, "key_algorithm": %s}]}\n' "$name"
    ;;
*) exit 2 ;;
esac
