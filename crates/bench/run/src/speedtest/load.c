/*
** Loads a SQLite library, then a shared object that uses it: so the object's calls are bound to a
** library that is chosen at run time. Arguments: the object, the library, then the object's own.
*/
#include <dlfcn.h>
#include <stdio.h>

typedef int (*entry_point)(int, char**);

static int give_up(const char *what){
  const char *why = dlerror();
  fprintf(stderr, "%s: %s\n", what, why ? why : "no reason given");
  return 2;
}

int main(int argc, char **argv){
  void *object;
  entry_point entry;
  if( argc<5 ) return give_up("too few arguments");
  if( dlopen(argv[2], RTLD_NOW|RTLD_GLOBAL)==0 ) return give_up(argv[2]);
  object = dlopen(argv[1], RTLD_NOW|RTLD_LOCAL);
  if( object==0 ) return give_up(argv[1]);
  entry = (entry_point)dlsym(object, "tdekit_run_speedtest1");
  if( entry==0 ) return give_up(argv[1]);
  return entry(argc-3, argv+3);
}
