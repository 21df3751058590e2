/*
** Makes tdekit's VFS the default of a SQLite that is linked into a test program.
**
** SQLite calls tdekit_suite_init at the end of each sqlite3_initialize that follows a
** sqlite3_shutdown or the start (-DSQLITE_EXTRA_INIT=tdekit_suite_init). The extension is loaded as
** SQLite itself would load it, with SQLite's own table of routines. A test that meant to run
** encrypted must not run plain: whatever fails here ends the process.
*/
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sqlite3.h"

typedef struct sqlite3_api_routines sqlite3_api_routines;
typedef int (*entry_point)(sqlite3*, char**, const sqlite3_api_routines*);

/* Names the extension; without it nothing is loaded. */
#define VARIABLE "TDEKIT_SUITE_EXTENSION"

static const sqlite3_api_routines *table;
static entry_point entry;

static void give_up(const char *what, const char *why){
  fprintf(stderr, "tdekit's shim: %s: %s\n", what, why ? why : "no reason given");
  abort();
}

static int take_table(sqlite3 *db, char **message, const sqlite3_api_routines *routines){
  (void)db;
  (void)message;
  table = routines;
  return SQLITE_OK;
}

/* The table is static data of SQLite's, which it hands to entry points alone. */
static void find_table(void){
  sqlite3 *db = 0;
  sqlite3_auto_extension((void(*)(void))take_table);
  if( sqlite3_open(":memory:", &db)!=SQLITE_OK ) give_up("open", sqlite3_errmsg(db));
  sqlite3_close(db);
  sqlite3_cancel_auto_extension((void(*)(void))take_table);
  if( table==0 ) give_up("open", "the table of routines was not passed");
}

int tdekit_suite_init(const char *unused){
  const char *path = getenv(VARIABLE);
  char *message = 0;
  int rc;
  sqlite3_vfs *vfs;
  (void)unused;
  if( path==0 || path[0]==0 ) return SQLITE_OK;
  if( entry==0 ){
    void *library = dlopen(path, RTLD_NOW|RTLD_LOCAL);
    if( library==0 ) give_up(path, dlerror());
    find_table();
    entry = (entry_point)dlsym(library, "sqlite3_tdekitsqlite_init");
    if( entry==0 ) give_up(path, dlerror());
  }
  rc = entry(0, &message, table);
  if( rc!=SQLITE_NOMEM && rc!=SQLITE_OK_LOAD_PERMANENTLY ) give_up("load", message);
  sqlite3_free(message);
  if( rc==SQLITE_NOMEM ) return rc; /* tests make memory fail, and look at what is answered */
  /* sqlite3_initialize has made the operating system's VFS the default again. */
  vfs = sqlite3_vfs_find("tdekit");
  if( vfs==0 || sqlite3_vfs_register(vfs, 1)!=SQLITE_OK ) give_up("register", 0);
  return SQLITE_OK;
}
