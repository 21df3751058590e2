package tdekit_test

import (
	"bytes"
	"database/sql"
	"os"
	"os/exec"
	"strings"
	"testing"

	tdekit "tdekit/go"
)

const marker = "a name that no raw file may show"

// TestMain is also the process that opens a database anew: a VFS stays in the process it was
// loaded into.
func TestMain(m *testing.M) {
	if statement := os.Getenv("PROVE_SQL"); statement != "" {
		os.Exit(child(statement))
	}
	os.Exit(m.Run())
}

func child(statement string) int {
	open := func(path string) (*sql.DB, error) { return sql.Open("sqlite3", path) }
	if os.Getenv("PROVE_LOAD") != "" {
		open = func(path string) (*sql.DB, error) { return tdekit.Open(path) }
	}
	if password := os.Getenv("PROVE_PASSWORD"); password != "" {
		open = func(path string) (*sql.DB, error) {
			return tdekit.Open(path, tdekit.Password(password))
		}
	}
	if file := os.Getenv("PROVE_PASSWORD_FILE"); file != "" {
		open = func(path string) (*sql.DB, error) {
			return tdekit.Open(path+"?_foreign_keys=on", tdekit.PasswordFile(file))
		}
	}
	db, err := open("app.db")
	if err == nil && strings.HasPrefix(statement, "SELECT") {
		var count int
		if err = db.QueryRow(statement).Scan(&count); err == nil {
			os.Stdout.WriteString("found " + strings.Repeat("x", count/100))
		}
	} else if err == nil {
		_, err = db.Exec(statement)
	}
	if err != nil {
		os.Stdout.WriteString(err.Error())
		return 1
	}
	return 0
}

func TestTheModuleOpensWhatTheCommandEncrypts(t *testing.T) {
	home := t.TempDir()
	environment := []string{"HOME=" + home, "TDEKIT_PASSWORD=only for this proof",
		"PATH=" + os.Getenv("PATH"), "TDEKIT_EXTENSION=" + os.Getenv("TDEKIT_EXTENSION")}
	// The beginning of command lines where an emulator runs all this.
	through := strings.Fields(os.Getenv("PROVE_THROUGH"))
	run := func(program string, variables []string, words ...string) (string, bool) {
		words = append(append(append([]string{}, through...), program), words...)
		command := exec.Command(words[0], words[1:]...)
		command.Dir, command.Env = home, append(environment, variables...)
		said, err := command.CombinedOutput()
		return string(said), err == nil
	}
	again := func(load, statement string, more ...string) string {
		variables := append([]string{"PROVE_LOAD=" + load, "PROVE_SQL=" + statement}, more...)
		said, _ := run(os.Args[0], variables)
		return said
	}
	expect := func(said, wanted string) {
		t.Helper()
		if (wanted == "" && said != "") || !strings.Contains(said, wanted) {
			t.Fatalf("expected %q: %s", wanted, said)
		}
	}
	shows := func() bool {
		content, err := os.ReadFile(home + "/app.db")
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(content, []byte(marker))
	}
	expect(again("", "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT)"), "")
	many := "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<500) "
	expect(again("", "INSERT INTO t "+many+"SELECT i, '"+marker+"' FROM c"), "")
	if !shows() {
		t.Fatal("the plain file does not show the marker")
	}
	for _, words := range [][]string{{"key", "init"}, {"cert", "create", "Proof"},
		{"encrypt", "app.db", "--certificate", "Proof"}} {
		if said, ok := run(os.Getenv("PROVE_COMMAND"), nil, words...); !ok {
			t.Fatalf("tdekit %v: %s", words, said)
		}
	}
	const count = "SELECT count(*) FROM t"
	expect(again("1", count), "found xxxxx")
	expect(again("1", "INSERT INTO t VALUES(501, '"+marker+"')"), "")
	expect(again("1", count), "found xxxxx")
	if shows() {
		t.Fatal("the encrypted file shows the marker")
	}
	expect(again("", count), "not a database")
	expect(again("1", count, "TDEKIT_PASSWORD=another one"), "wrong password for the key store")
	expect(again("1", count, "TDEKIT_PASSWORD="), "authorization denied")
	proveSecrets(t, home, func(more ...string) string {
		return again("", count, append(more, "TDEKIT_PASSWORD=")...)
	})
	content, _ := os.ReadFile(home + "/app.db")
	// One bit of one byte of one page.
	content[len(content)-2000] ^= 1
	if err := os.WriteFile(home+"/app.db", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if said := again("1", count); strings.Contains(said, "found") {
		t.Fatalf("tampered with: %s", said)
	}
}

// proveSecrets opens the database by secrets of the program's own, in processes whose environment
// has none.
func proveSecrets(t *testing.T, home string, by func(more ...string) string) {
	t.Helper()
	const right = "only for this proof"
	file := home + "/password"
	if err := os.WriteFile(file, []byte(right+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, each := range []struct {
		secret string
		mode   os.FileMode
		wanted string
	}{
		{"PROVE_PASSWORD=" + right, 0o600, "found xxxxx"},
		{"PROVE_PASSWORD=another one", 0o600, "tdekit: wrong password for the key store"},
		{"PROVE_PASSWORD_FILE=" + file, 0o600, "found xxxxx"},
		{"PROVE_PASSWORD_FILE=" + file, 0o644, "password has mode 0644: others could read it"},
	} {
		if err := os.Chmod(file, each.mode); err != nil {
			t.Fatal(err)
		}
		if said := by(each.secret); !strings.Contains(said, each.wanted) {
			t.Fatalf("%s: expected %q: %s", each.secret, each.wanted, said)
		}
	}
}
