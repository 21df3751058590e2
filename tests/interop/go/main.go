// Uses one database through the stock mattn/go-sqlite3; see tests/interop/README.md.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mattn/go-sqlite3"

	tdekit "tdekit/go"
)

const rows = 1000

var (
	marker    = os.Getenv("INTEROP_MARKER")
	_, sealed = os.LookupEnv("TDEKIT_EXTENSION")
)

func body(i int) string { return fmt.Sprintf("žluťoučký 表 🔑 %d %s", i, marker) }

func data(i int) []byte {
	blob := make([]byte, 300)
	for j := range blob {
		blob[j] = byte(i*7 + j*13)
	}
	return blob
}

func must(what string, err error) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "go: FAILED: "+format+"\n", values...)
	os.Exit(1)
}

func expect[T comparable](what string, found, wanted T) {
	if found != wanted {
		fail("%s: found %v, expected %v", what, found, wanted)
	}
}

// session is one connection: what PRAGMA and ATTACH set stays set.
type session struct {
	*sql.Conn
	ctx context.Context
}

func (s session) run(statement string, values ...any) int64 {
	result, err := s.ExecContext(s.ctx, statement, values...)
	must(statement, err)
	changed, err := result.RowsAffected()
	must(statement, err)
	return changed
}

func (s session) row(query string, values ...any) *sql.Row {
	return s.QueryRowContext(s.ctx, query, values...)
}

func (s session) text(query string) (found string) {
	must(query, s.row(query).Scan(&found))
	return found
}

func (s session) number(query string) (found float64) {
	must(query, s.row(query).Scan(&found))
	return found
}

// expectSealedFiles: no file beside the database shows the marker; in a plain run at least one
// does.
func expectSealedFiles(path, when, mustExist string) {
	if mustExist != "" {
		state, err := os.Stat(path + mustExist)
		must(mustExist+" "+when, err)
		expect(mustExist+" "+when+" holds something", state.Size() > 0, true)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	must("list", err)
	var showing []string
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(filepath.Dir(path), entry.Name()))
		must("read", err)
		if bytes.Contains(content, []byte(marker)) {
			showing = append(showing, entry.Name())
		}
	}
	expect(fmt.Sprintf("files that show the marker %s %v", when, showing), len(showing) > 0, !sealed)
}

func writeAndChange(s session, mode string) {
	expect("journal mode", s.text("PRAGMA journal_mode="+mode), mode)
	table := "note_" + mode
	s.run("CREATE TABLE " + table + "(id INTEGER PRIMARY KEY, body TEXT, data BLOB, n REAL)")
	tx, err := s.BeginTx(s.ctx, nil)
	must("begin", err)
	insert, err := tx.Prepare("INSERT INTO " + table + " VALUES(?, ?, ?, ?)")
	must("prepare", err)
	for i := 1; i <= rows; i++ {
		_, err := insert.Exec(i, body(i), data(i), float64(i)/4)
		must("insert", err)
	}
	must("close", insert.Close())
	must("commit", tx.Commit())
	for _, i := range []int{1, 500, rows} {
		var text string
		var blob []byte
		query := "SELECT body, data FROM " + table + " WHERE id=?"
		must(query, s.row(query, i).Scan(&text, &blob))
		expect("text of a row", text, body(i))
		expect("blob of a row", bytes.Equal(blob, data(i)), true)
	}
	changed := s.run("UPDATE " + table + " SET n=-n, body=body||'!' WHERE id%10=0")
	expect("rows updated", changed, 100)
	expect("rows deleted", s.run("DELETE FROM "+table+" WHERE id%10=5"), 100)
	s.run("BEGIN")
	s.run("DELETE FROM " + table)
	s.run("ROLLBACK")
	expect("rows left", s.number("SELECT count(*) FROM "+table), 900)
	expect("sum of rows left", s.number("SELECT sum(n) FROM "+table), 87375)
}

func writeThroughRollbackJournal(s session, path string) {
	s.run("PRAGMA cache_size=10")
	s.run("BEGIN")
	s.run("UPDATE note_delete SET n=n+1, body=body||'?'")
	expectSealedFiles(path, "in a transaction", "-journal")
	s.run("ROLLBACK")
	s.run("PRAGMA cache_size=-2000")
}

func attachPlain(s session, path string) {
	side := filepath.Join(filepath.Dir(path), "side.db")
	s.run("ATTACH ? AS side", side)
	s.run("BEGIN")
	s.run("INSERT INTO side.side SELECT id+100, 'from main' FROM note_delete WHERE id<=20")
	s.run("UPDATE note_delete SET n=0 WHERE id=1")
	s.run("COMMIT")
	expect("rows in the attached file", s.number("SELECT count(*) FROM side.side"), 28)
	join := "SELECT count(*) FROM side.side s JOIN note_delete n ON s.id=n.id+100"
	expect("joined rows", s.number(join), 18)
	s.run("DETACH side")
	content, err := os.ReadFile(side)
	must("read", err)
	plain := bytes.HasPrefix(content, []byte("SQLite format 3\x00"))
	expect("the attached file stays plain", plain, true)
}

// opensAfresh says what a fresh process, with the extension if it is told where, says to this file.
func opensAfresh(path string) int {
	if sealed {
		must("load", tdekit.Load(""))
	}
	db, err := sql.Open("sqlite3", path)
	must("open", err)
	var count int
	if err := db.QueryRow("SELECT count(*) FROM sqlite_master").Scan(&count); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func expectFreshProcess(path string) {
	fresh := exec.Command(os.Args[0], "--afresh", path)
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "TDEKIT_EXTENSION=") {
			fresh.Env = append(fresh.Env, entry)
		}
	}
	said, err := fresh.Output()
	wanted := ""
	if sealed {
		wanted = "file is not a database"
	}
	expect("a fresh process without the extension fails", err != nil, sealed)
	expect("said without the extension", strings.TrimSpace(string(said)), wanted)
}

func main() {
	if os.Args[1] == "--afresh" {
		os.Exit(opensAfresh(os.Args[2]))
	}
	expect("INTEROP_MARKER is set", marker != "", true)
	path, way := os.Args[1], "without the extension"
	if sealed {
		must("load", tdekit.Load(""))
		way = "with the extension"
	}
	db, err := sql.Open("sqlite3", path)
	must("open", err)
	conn, err := db.Conn(context.Background())
	must("connect", err)
	s := session{conn, context.Background()}
	expect("seed", s.number("SELECT sum(id)+count(*)*1e6 FROM seed"), 500125250)
	expect("row of seed", s.text("SELECT name FROM seed WHERE id=7"), "seed 7 "+marker)
	writeAndChange(s, "wal")
	expectSealedFiles(path, "in WAL mode", "-wal")
	writeAndChange(s, "delete")
	writeThroughRollbackJournal(s, path)
	attachPlain(s, path)
	expect("integrity_check", s.text("PRAGMA integrity_check"), "ok")
	must("close", conn.Close())
	must("close", db.Close())
	expectSealedFiles(path, "at rest", "")
	expectFreshProcess(path)
	version, _, _ := sqlite3.Version()
	fmt.Printf("go: ok (SQLite %s, %s)\n", version, way)
}
