/* A program linked with the system's SQLite that knows nothing of extensions: `client DATABASE`,
 * with libtdekit_preload.so in LD_PRELOAD. See tests/interop/README.md. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* As sqlite3.h declares them: the header is in another package than the library. */
typedef struct sqlite3 sqlite3;
enum { SQLITE_OK = 0, SQLITE_OPEN_READWRITE = 2, SQLITE_OPEN_URI = 64 };
int sqlite3_initialize(void);
int sqlite3_shutdown(void);
int sqlite3_open(const char *, sqlite3 **);
int sqlite3_open16(const void *, sqlite3 **);
int sqlite3_open_v2(const char *, sqlite3 **, int, const char *);
int sqlite3_close(sqlite3 *);
int sqlite3_exec(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
const char *sqlite3_errmsg(sqlite3 *);
const char *sqlite3_libversion(void);

enum { THREADS = 8, ANSWER = 1000 };
static const char *const COUNT = "SELECT count(*) || ' ' || sum(id) FROM seed";
static const char *const SEED = "500 125250";
static const char *const NO_DATABASE = "file is not a database";
static const char *const NO_PASSWORD =
    "authorization denied: tdekit: the database's key did not open: nothing is configured to open "
    "the key store, which needs a password";
static const char *const WRONG_PASSWORD =
    "authorization denied: tdekit: the database's key did not open: wrong password for the key "
    "store";

static void expect(const char *what, const char *found, const char *wanted) {
    if (strcmp(found, wanted) != 0) {
        fprintf(stderr, "preload-c: FAILED: %s: found '%s', expected '%s'\n", what, found, wanted);
        exit(1);
    }
}

static int keep(void *answer, int columns, char **values, char **names) {
    (void)columns, (void)names;
    snprintf(answer, ANSWER, "%s", values[0] ? values[0] : "NULL");
    return 0;
}

/* The last value of the statements, or why there is none. Closes the connection. */
static void answer_and_close(int opened, sqlite3 *db, const char *sql, char answer[ANSWER]) {
    answer[0] = 0;
    if (opened != SQLITE_OK || sqlite3_exec(db, sql, keep, answer, NULL) != SQLITE_OK)
        snprintf(answer, ANSWER, "%s", sqlite3_errmsg(db));
    if (sqlite3_close(db) != SQLITE_OK) expect("close", "busy", "closed");
}

enum way { OPEN, OPEN16, OPEN_V2 };

static void ask(enum way way, const char *path, const char *sql, char answer[ANSWER]) {
    sqlite3 *db = NULL;
    int opened = 1;
    if (way == OPEN) opened = sqlite3_open(path, &db);
    if (way == OPEN_V2) {
        char uri[4200];
        snprintf(uri, sizeof uri, "file:%s?mode=rw", path);
        opened = sqlite3_open_v2(uri, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, NULL);
    }
    if (way == OPEN16) {
        unsigned short wide[4200] = {0};
        for (size_t i = 0; path[i]; i++) wide[i] = (unsigned char)path[i];
        opened = sqlite3_open16(wide, &db);
    }
    answer_and_close(opened, db, sql, answer);
}

static void expect_answer(const char *what, enum way way, const char *path, const char *sql,
                          const char *wanted) {
    char answer[ANSWER];
    ask(way, path, sql, answer);
    expect(what, answer, wanted);
}

/* Whether a file beside the database shows the marker. */
static bool shows(const char *path, const char *marker) {
    char directory[4200], name[8400];
    snprintf(directory, sizeof directory, "%s", path);
    *strrchr(directory, '/') = 0;
    DIR *entries = opendir(directory);
    bool found = false;
    for (struct dirent *entry; entries && (entry = readdir(entries)) != NULL;) {
        snprintf(name, sizeof name, "%s/%s", directory, entry->d_name);
        FILE *file = entry->d_type == DT_REG ? fopen(name, "rb") : NULL;
        if (!file) continue;
        static char content[1 << 24];
        size_t length = fread(content, 1, sizeof content, file);
        found |= memmem(content, length, marker, strlen(marker)) != NULL;
        fclose(file);
    }
    if (entries) closedir(entries);
    return found;
}

static pthread_barrier_t together;

static void *open_in_thread(void *path) {
    pthread_barrier_wait(&together);
    expect_answer("a thread", OPEN, path, COUNT, SEED);
    return NULL;
}

/* The first that this process does with SQLite is done by many threads at once. */
static int threads(char *path) {
    pthread_t all[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&all[i], NULL, open_in_thread, path) != 0) return 1;
    for (int i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
    return 0;
}

/* Opens afresh; what SQLite says goes to standard output. */
static int afresh(const char *path) {
    char answer[ANSWER];
    ask(OPEN, path, COUNT, answer);
    puts(answer);
    return 0;
}

/* Has a fresh process of this program say something, with a variable set or, for NULL, removed. */
static void expect_afresh(const char *program, const char *mode, const char *path,
                          const char *variable, const char *value, const char *wanted) {
    int ends[2], status = -1;
    if (pipe(ends) != 0) expect("a pipe", "none", "one");
    pid_t child = fork();
    if (child == 0) {
        if (variable && value) setenv(variable, value, 1);
        if (variable && !value) unsetenv(variable);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]), close(ends[1]);
        execl(program, program, mode, path, NULL);
        _exit(127);
    }
    close(ends[1]);
    char said[2000] = "";
    size_t length = 0;
    for (ssize_t more; (more = read(ends[0], said + length, sizeof said - 1 - length)) > 0;)
        length += (size_t)more;
    close(ends[0]);
    waitpid(child, &status, 0);
    said[length] = 0;
    char *last = said + strlen(said);
    if (last > said) last[-1] = 0;
    char *line = strrchr(said, '\n');
    expect(variable ? variable : mode, line ? line + 1 : said, wanted);
    if (status != 0) expect(mode, "another exit code", "0");
}

int main(int count, char **words) {
    if (count == 3 && strcmp(words[1], "--threads") == 0) return threads(words[2]);
    if (count == 3 && strcmp(words[1], "--afresh") == 0) return afresh(words[2]);
    const char *marker = getenv("INTEROP_MARKER");
    if (count != 2 || !marker || !getenv("LD_PRELOAD")) return 2;
    bool sealed = getenv("TDEKIT_EXTENSION") != NULL;
    const char *path = words[1];

    /* Ready before the first is opened, and then each way to open. */
    if (sqlite3_initialize() != SQLITE_OK) expect("initialize", "an error", "SQLITE_OK");
    expect_answer("open", OPEN, path, COUNT, SEED);
    expect_answer("open16", OPEN16, path, COUNT, SEED);
    expect_answer("open_v2", OPEN_V2, path, COUNT, SEED);
    expect_answer("change", OPEN, path,
                  "PRAGMA journal_mode=wal; CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT);"
                  "INSERT INTO note SELECT id, name || ' again' FROM seed;"
                  "DELETE FROM note WHERE id % 5 = 0; SELECT count(*) FROM note",
                  "400");
    /* The library forgets all VFSs; without the call it is made ready by what opens. */
    for (int again = 0; again < 2; again++) {
        if (sqlite3_shutdown() != SQLITE_OK) expect("shutdown", "an error", "SQLITE_OK");
        expect_answer("after shutdown", again ? OPEN_V2 : OPEN16, path,
                      "SELECT count(*) FROM note", "400");
    }
    /* In WAL mode the last to close may lock out one that opens. */
    expect_answer("integrity", OPEN_V2, path,
                  "PRAGMA journal_mode=delete; PRAGMA integrity_check", "ok");
    expect("a file that shows the marker", shows(path, marker) ? "one" : "none",
           sealed ? "none" : "one");

    expect_afresh(words[0], "--threads", path, NULL, NULL, "");
    const char *plain = sealed ? NO_DATABASE : SEED;
    expect_afresh(words[0], "--afresh", path, "LD_PRELOAD", NULL, plain);
    expect_afresh(words[0], "--afresh", path, "TDEKIT_EXTENSION", "/none.so", plain);
    if (sealed) {
        /* Without the name, the one beside the library. */
        expect_afresh(words[0], "--afresh", path, "TDEKIT_EXTENSION", NULL, SEED);
        expect_afresh(words[0], "--afresh", path, "TDEKIT_PASSWORD", NULL, NO_PASSWORD);
        expect_afresh(words[0], "--afresh", path, "TDEKIT_PASSWORD", "wrong", WRONG_PASSWORD);
    }
    printf("preload-c: ok (SQLite %s, %s)\n", sqlite3_libversion(),
           sealed ? "with the extension, preloaded" : "without the extension");
    return 0;
}
