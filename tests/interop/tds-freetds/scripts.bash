#!/usr/bin/env bash
# Scripts of migration that tools generate, and freebcp, against `tdekit serve`: each script twice
# where it can be, with rows in between that must be kept.
#
# usage: scripts.bash PORT on CERTIFICATE OTHER_CERTIFICATE
set -euo pipefail
port=$1 mode=$2 certificate=$3 password=$INTEROP_PASSWORD
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=freetds.bash
source "$here/freetds.bash"
configure require "$certificate"

# Runs a script; batches end at lines with GO.
script() { # NAME
  local answer
  answer=$({ cat "$here/scripts/$1.sql" && printf '\ngo\nexit\n'; } |
    timeout "$limit" tsql -S served -U sa -P "$password" -D app -o q 2>&1) || fail "$1: $answer"
  if grep -Eq 'severity (1[1-9]|2[0-9])|^Error' <<<"$answer"; then fail "$1: $answer"; fi
}

# The answer to a query is exactly these lines, below its heading.
same() { # SQL WANTED
  local answer
  answer=$(must "$1" | tail -n +2)
  [ "$answer" = "$2" ] || fail "$1: '$answer', not '$2'"
}

columns() { # TABLE
  printf "SELECT COLUMN_NAME + ' ' + DATA_TYPE + ISNULL('(' + CAST(CHARACTER_MAXIMUM_LENGTH AS
    varchar(9)) + ')', '') + ' ' + IS_NULLABLE FROM INFORMATION_SCHEMA.COLUMNS
    WHERE TABLE_NAME = '%s' ORDER BY ORDINAL_POSITION" "$1"
}

objects() {
  printf "SELECT name + ' ' + type_desc FROM sys.objects WHERE name LIKE '%s' ORDER BY 1" "$1"
}

ef() {
  script ef-1
  script ef-1
  must "INSERT INTO shop.Products (Name, Code, Price, Stock, OwnerId) VALUES
    (N'Grüße $INTEROP_MARKER', N'c1', 1.25, 2, 1), (N'Ω', NULL, 2, 3, NULL),
    (N'日本', NULL, 3, 4, 2)" >/dev/null
  script ef-2
  script ef-1
  script ef-2
  same 'SELECT MigrationId FROM __EFMigrationsHistory ORDER BY 1' \
    $'20240101000000_First\n20240201000000_Second'
  same "$(columns Items)" "$(printf '%s\n' 'Id uniqueidentifier NO' 'Title nvarchar(-1) NO' \
    'Code nvarchar(40) NO' 'Price decimal NO' 'Stock int NO' 'Added datetime2 NO' \
    'Total decimal YES' 'OwnerId int YES' 'Note nvarchar(-1) NO')"
  same 'SELECT i.Title, i.Code, i.Total, o.Name FROM shop.Items AS i LEFT JOIN shop.Owners AS o
    ON o.Id = i.OwnerId ORDER BY i.Price' \
    "$(printf 'Grüße %s\tc1\t2.50\tZoë\nΩ\t\t6.00\tNULL\n日本\t\t12.00\tc' "$INTEROP_MARKER")"
  same "SELECT name, is_unique FROM sys.indexes WHERE object_id = OBJECT_ID('shop.Items')
    ORDER BY 1" $'IX_Items_Code\t0\nIX_Items_OwnerId\t0\nPK_Items\t1'
  same "SELECT value FROM sys.extended_properties WHERE major_id = OBJECT_ID('shop.Owners')" \
    'Those who own.'
  same 'SELECT NEXT VALUE FOR shop.Numbers; SELECT NEXT VALUE FOR shop.Numbers' $'1\n\n11'
  refused 547 'UPDATE shop.Items SET Stock = -1'
  same "DELETE shop.Owners; SELECT COUNT(*) FROM shop.Items WHERE OwnerId IS NULL" 3
}

prisma() {
  script prisma-1
  must "INSERT INTO dbo.[User] (email, name) VALUES ('a@example.org', N'Ω $INTEROP_MARKER');
    INSERT INTO dbo.Post (id, title, price, authorId, updatedAt) VALUES
    ('p1', N'Grüße', 1.5, 1, '2024-02-29 13:14:15.1234567')" >/dev/null
  script prisma-2
  same "$(columns Post)" "$(printf '%s\n' 'id nvarchar(30) NO' 'title nvarchar(1000) YES' \
    'views bigint NO' 'price decimal YES' 'authorId int YES' 'updatedAt datetime2 NO' \
    'status nvarchar(1000) NO')"
  same "SELECT p.title, p.views, CAST(p.price AS decimal(9, 2)), p.status, u.name FROM dbo.Post AS p
    JOIN dbo.[User] AS u ON u.id = p.authorId" \
    "$(printf 'Grüße\t0\t1.50\tDRAFT\tΩ %s' "$INTEROP_MARKER")"
  # A script that fails leaves nothing of itself behind.
  local before
  before=$(must "$(objects '%')")
  expect "$(ask "$(cat "$here/scripts/prisma-1.sql")")" 'Msg 2714'
  same "$(objects '%')" "$(tail -n +2 <<<"$before")"
  same 'SELECT @@TRANCOUNT' 0
}

ef
prisma
echo "scripts $mode: ok"
