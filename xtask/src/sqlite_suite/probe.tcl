# Makes a database, and another after SQLite was shut down and started again.
sqlite3 db first.db
db eval {CREATE TABLE t(x); INSERT INTO t VALUES(1)}
db close
sqlite3_shutdown
sqlite3_initialize
sqlite3 db second.db
db eval {CREATE TABLE t(x); INSERT INTO t VALUES(1)}
db close
exit
