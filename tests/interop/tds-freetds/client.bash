#!/usr/bin/env bash
# FreeTDS's tsql and freebcp against `tdekit serve`.
#
# usage: client.bash PORT off|login|on CERTIFICATE OTHER_CERTIFICATE
set -euo pipefail
port=$1 mode=$2 certificate=$3 other=$4 password=$INTEROP_PASSWORD
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=freetds.bash
source "$here/freetds.bash"

connect() {
  local sealed=FALSE
  case $mode in
    off) configure off ;;
    login) configure request "$certificate" ;;
    on)
      configure require "$other"
      expect "$(ask 'SELECT 1' || true)" 'There was a problem connecting to the server'
      configure require "$certificate"
      sealed=TRUE
      ;;
  esac
  expect "$(password='not the password' ask 'SELECT 1' || true)" 'Msg 18456'
  local option='SELECT encrypt_option FROM sys.dm_exec_connections WHERE session_id = @@SPID'
  expect "$(must "$option")" "$sealed"
}

# A thousand rows of text, numbers, dates and bytes, NULLs among them; then out and in once more,
# and both tables must hold the same.
load() {
  local columns='id int NOT NULL PRIMARY KEY, name nvarchar(80) NULL, amount decimal(19, 4) NULL,
    ratio float NULL, day date NULL, at datetime2(3) NULL, data varbinary(40) NULL'
  must "CREATE TABLE dbo.rows_$mode ($columns)" >/dev/null
  must "CREATE TABLE dbo.again_$mode ($columns)" >/dev/null
  local row format='%d\tGrüße, Ω, 日本, 😀 %d %s\t%d.0625\t%d.5\t2024-02-29\t'
  format+='2024-02-29 13:14:15.123\t%08x00ff\n'
  for row in $(seq 1000); do
    if ((row % 10 == 0)); then
      printf '%d\t\t\t\t\t\t\n' "$row"
    else
      # shellcheck disable=SC2059 # the format is ours
      printf "$format" "$row" "$row" "$INTEROP_MARKER" "$row" "$row" "$row"
    fi
  done >rows.txt
  expect "$(bulk "dbo.rows_$mode" in rows.txt -c)" '1000 rows copied'
  expect "$(must "SELECT 'rows ' + CAST(COUNT(*) AS varchar(9)), 'names ' +
    CAST(COUNT(name) AS varchar(9)), 'sum ' + CAST(SUM(amount) AS varchar(30))
    FROM dbo.rows_$mode")" $'rows 1000\tnames 900\tsum 450056.2500'
  expect "$(must "SELECT name, amount, ratio, CONVERT(varchar(10), day, 23),
    CONVERT(varchar(30), at, 121), CONVERT(varchar(40), data, 1) FROM dbo.rows_$mode
    WHERE id = 77")" "$(printf 'Grüße, Ω, 日本, 😀 77 %s\t77.0625\t77.5\t2024-02-29\t%s\t%s' \
    "$INTEROP_MARKER" '2024-02-29 13:14:15.123' 0x0000004D00FF)"
  expect "$(bulk "dbo.rows_$mode" out again.txt -c)" '1000 rows copied'
  expect "$(bulk "dbo.again_$mode" in again.txt -c -b 300)" '1000 rows copied'
  local all='id, name, amount, ratio, day, at, CONVERT(varchar(90), data, 1)'
  local pair others
  for pair in "rows_$mode again_$mode" "again_$mode rows_$mode"; do
    others=$(must "SELECT 'others: ' + CAST(COUNT(*) AS varchar(9)) FROM (SELECT $all FROM
      dbo.${pair% *} EXCEPT SELECT $all FROM dbo.${pair#* }) AS other (a, b, c, d, e, f, g)")
    expect "$others" 'others: 0'
  done
}

# A value of 1 MB, in and out.
load_long() {
  must "CREATE TABLE dbo.long_$mode (id int NOT NULL PRIMARY KEY, body varchar(max))" >/dev/null
  { printf '1\t'; head -c 750000 /dev/zero | base64 -w 0; printf '\n2\tshort\n'; } >long.txt
  expect "$(bulk "dbo.long_$mode" in long.txt -c -T 16777216)" '2 rows copied'
  expect "$(must "SELECT 'length ' + CAST(LEN(body) AS varchar(9)) FROM dbo.long_$mode
    WHERE id = 1")" 'length 1000000'
  expect "$(bulk "dbo.long_$mode" out again.txt -c -T 16777216)" '2 rows copied'
  cmp long.txt again.txt || fail 'what was loaded comes back changed'
}

change() {
  expect "$(must "UPDATE dbo.rows_$mode SET name = N'new' WHERE id <= 100;
    SELECT 'changed ' + CAST(@@ROWCOUNT AS varchar(9))")" 'changed 100'
  expect "$(must "DELETE FROM dbo.rows_$mode WHERE id > 900;
    SELECT 'gone ' + CAST(@@ROWCOUNT AS varchar(9))")" 'gone 100'
  local count="SELECT 'left ' + CAST(COUNT(*) AS varchar(9)) FROM dbo.rows_$mode"
  expect "$(must "BEGIN TRANSACTION; DELETE FROM dbo.rows_$mode; $count; ROLLBACK")" 'left 0'
  expect "$(must "$count")" 'left 900'
  must "BEGIN TRANSACTION; DELETE FROM dbo.rows_$mode WHERE id = 1; COMMIT" >/dev/null
  expect "$(must "$count")" 'left 899'
}

refuse() {
  must "CREATE TABLE dbo.strict_$mode (id int NOT NULL PRIMARY KEY, n int CHECK (n > 0))" >/dev/null
  must "INSERT INTO dbo.strict_$mode VALUES (1, 1)" >/dev/null
  refused 2627 "INSERT INTO dbo.strict_$mode VALUES (1, 2)"
  refused 547 "INSERT INTO dbo.strict_$mode VALUES (2, -1)"
  refused 8134 'SELECT 1 / 0'
  refused 102 'SELECT 1 + * FROM'
  refused 208 'SELECT * FROM dbo.not_there'
}

run_procedure() {
  must "CREATE PROCEDURE dbo.double_$mode @n int, @twice int OUTPUT AS
    BEGIN SET @twice = @n * 2; SELECT @n AS n; SELECT 'second', 'set'; RETURN 7; END" >/dev/null
  local answer
  answer=$(must "DECLARE @r int, @t int; EXEC @r = dbo.double_$mode 21, @t OUTPUT;
    SELECT 'returned ' + CAST(@r AS varchar(9)) + ', twice ' + CAST(@t AS varchar(9));
    PRINT 'printed'; RAISERROR('warned %d', 10, 1, 5); RAISERROR('raised', 5, 1)")
  expect "$answer" $'second\tset'
  expect "$answer" 'returned 7, twice 42'
  expect "$answer" 'printed'
  expect "$answer" 'warned 5'
  refused 50000 "RAISERROR('mine', 16, 1)"
}

# A client that is killed while its batch runs does not harm the server.
vanish() {
  printf 'WHILE 1 = 1 WAITFOR DELAY '"'00:00:00.010'"'\ngo\n' |
    timeout --signal=KILL 1 tsql -S served -U sa -P "$password" -o q >/dev/null 2>&1 || true
  expect "$(must "SELECT 'still ' + 'there'")" 'still there'
}

connect
load
load_long
change
refuse
run_procedure
vanish
echo "freetds $mode: ok"
