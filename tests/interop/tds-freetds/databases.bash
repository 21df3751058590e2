#!/usr/bin/env bash
# Makes the databases for a client, through T-SQL as FreeTDS's `tsql` sends it: `app`, encrypted,
# and `plain`, whose raw files contain the marker.
#
# usage: databases.bash PORT MODE CERTIFICATE OTHER_CERTIFICATE
set -euo pipefail
port=$1 password=$INTEROP_PASSWORD
here=$(dirname "${BASH_SOURCE[0]}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$(realpath "$here")
cd "$work"
# shellcheck source=freetds.bash
source "$here/freetds.bash"
configure require "$3"

must "CREATE MASTER KEY ENCRYPTION BY PASSWORD = '$INTEROP_KEY_PASSWORD'" master >/dev/null
must "CREATE CERTIFICATE AppCert WITH SUBJECT = 'interop tests'" master >/dev/null
must "CREATE DATABASE plain" master >/dev/null
must "CREATE TABLE dbo.control (note nvarchar(100))" plain >/dev/null
must "INSERT INTO dbo.control VALUES (N'$INTEROP_MARKER')" plain >/dev/null
must "CREATE DATABASE app" master >/dev/null
must "CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256
      ENCRYPTION BY SERVER CERTIFICATE AppCert" app >/dev/null
must "ALTER DATABASE app SET ENCRYPTION ON" master >/dev/null
state="SELECT 'state ' + CAST(encryption_state AS varchar(2)) FROM sys.dm_database_encryption_keys
       WHERE database_id = DB_ID('app')"
for _ in $(seq 100); do
  if must "$state" | grep -qF 'state 3'; then exit 0; fi
  sleep 0.1
done
fail "the database is not encrypted: $(must "$state")"
