/*
** Runs SQLite's own speedtest1 with an extension, and with statements for each connection.
*/
#include <stdio.h>
#include "sqlite3.h"

int speedtest1_main(int, char**);

static const char *on_open;

static int give_up(const char *what, const char *why){
  fprintf(stderr, "%s: %s\n", what, why ? why : "no reason given");
  return 2;
}

/* An automatic extension: SQLite calls it for each connection that opens. */
static int run_on_open(sqlite3 *db, char **message, const void *routines){
  (void)routines;
  return sqlite3_exec(db, on_open, 0, 0, message);
}

/* Arguments: extension or "", statements for each connection or "", then speedtest1's own. */
int tdekit_run_speedtest1(int argc, char **argv){
  sqlite3 *db = 0;
  char *message = 0;
  if( argv[0][0] ){
    /* It stays for the life of the process, and its VFS is the default from here on. */
    if( sqlite3_open(":memory:", &db)!=SQLITE_OK ) return give_up("open", sqlite3_errmsg(db));
    sqlite3_enable_load_extension(db, 1);
    if( sqlite3_load_extension(db, argv[0], 0, &message)!=SQLITE_OK ){
      return give_up(argv[0], message);
    }
    sqlite3_close(db);
  }
  on_open = argv[1];
  if( on_open[0] ) sqlite3_auto_extension((void(*)(void))run_on_open);
  argv[1] = "speedtest1";
  return speedtest1_main(argc-1, argv+1);
}
