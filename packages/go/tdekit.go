// Package tdekit opens SQLite databases that tdekit encrypted, with the stock mattn/go-sqlite3.
//
// Call Load once, before the first encrypted database is opened; every later
// sql.Open("sqlite3", path) of the process opens plain and encrypted databases alike.
// Open(path, Password(...)) opens one by a password that no environment names.
package tdekit

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/mattn/go-sqlite3"
)

const library = "libtdekit_sqlite.so"

var (
	loading sync.Mutex
	loaded  bool
)

// LoadablePath is where the extension is: TDEKIT_EXTENSION; beside the program, or in lib/tdekit
// beside its directory, for programs that ship it; or what `tdekit sqlite path` prints.
func LoadablePath() (string, error) {
	if path := os.Getenv("TDEKIT_EXTENSION"); path != "" {
		return path, nil
	}
	if program, err := os.Executable(); err == nil {
		directory := filepath.Dir(program)
		for _, place := range []string{".", "../lib/tdekit"} {
			path := filepath.Join(directory, place, library)
			if _, err := os.Stat(path); err == nil {
				return path, nil
			}
		}
	}
	out, err := exec.Command("tdekit", "sqlite", "path").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("tdekit: %s is not beside the program, and the command tdekit is "+
			"not installed", library)
	}
	return strings.TrimSpace(string(out)), err
}

// Load registers tdekit in this process, from path or, where that is empty, from LoadablePath.
// Any number of calls is fine, from any goroutine.
func Load(path string) error {
	loading.Lock()
	defer loading.Unlock()
	if loaded {
		return nil
	}
	if path == "" {
		found, err := LoadablePath()
		if err != nil {
			return err
		}
		path = found
	}
	// One connection loads it for all: a VFS belongs to the process.
	driver := &sqlite3.SQLiteDriver{Extensions: []string{path}}
	connection, err := driver.Open(":memory:")
	if err != nil {
		return fmt.Errorf("tdekit: load %s: %w", path, err)
	}
	loaded = true
	return connection.Close()
}

// Secret opens the key store of one database, in place of what the environment names.
type Secret struct {
	kind, value string
}

// Password is a secret of its own.
func Password(password string) Secret {
	return Secret{"password", password}
}

// PasswordFile is a secret in a file that nobody else can read or change.
func PasswordFile(path string) Secret {
	return Secret{"password_file", path}
}

// Open is Load with the installed extension, then sql.Open with the driver sqlite3. A secret is for
// the connections of this database alone; the error has the reason, such as a wrong password.
func Open(path string, secrets ...Secret) (*sql.DB, error) {
	if err := Load(""); err != nil {
		return nil, err
	}
	switch len(secrets) {
	case 0:
		return sql.Open("sqlite3", path)
	case 1:
		return openBy(path, secrets[0])
	default:
		return nil, errors.New("tdekit: Open takes one secret")
	}
}

// connector makes the connections of a database that a secret opens.
type connector struct {
	path string
	// The connection that holds the secret: what it holds lasts until it closes.
	holder driver.Conn
}

func openBy(path string, secret Secret) (*sql.DB, error) {
	holder, err := (&sqlite3.SQLiteDriver{}).Open(":memory:")
	if err != nil {
		return nil, err
	}
	// The driver's own parameters are not part of the file's name, unless it is a URI.
	name := path
	if !strings.HasPrefix(path, "file:") {
		name, _, _ = strings.Cut(path, "?")
	}
	arguments := []driver.Value{name, secret.kind, secret.value}
	run := holder.(*sqlite3.SQLiteConn)
	if _, err := run.Exec("SELECT tdekit_unlock(?, ?, ?)", arguments); err != nil {
		holder.Close()
		return nil, err
	}
	db := sql.OpenDB(&connector{path, holder})
	if err := db.Ping(); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// Connect opens a connection for the pool.
func (c *connector) Connect(context.Context) (driver.Conn, error) {
	return c.Driver().Open(c.path)
}

// Driver is the stock driver.
func (c *connector) Driver() driver.Driver {
	return &sqlite3.SQLiteDriver{}
}

// Close ends what the secret opens, with the pool.
func (c *connector) Close() error {
	return c.holder.Close()
}
