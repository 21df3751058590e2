// Package tdekit opens SQLite databases that tdekit encrypted, with the stock mattn/go-sqlite3.
//
// Call Load once, before the first encrypted database is opened; every later
// sql.Open("sqlite3", path) of the process opens plain and encrypted databases alike.
package tdekit

import (
	"database/sql"
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

// Open is Load with the installed extension, then sql.Open with the driver sqlite3.
func Open(path string) (*sql.DB, error) {
	if err := Load(""); err != nil {
		return nil, err
	}
	return sql.Open("sqlite3", path)
}
