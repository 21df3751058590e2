package main

// Opens databases that tdekit encrypted, with the stock mattn/go-sqlite3.

import (
	"database/sql"
	"os"
	"os/exec"
	"strings"

	"github.com/mattn/go-sqlite3"
)

// extensionPath is TDEKIT_EXTENSION, or what `tdekit sqlite path` prints.
func extensionPath() (string, error) {
	if path := os.Getenv("TDEKIT_EXTENSION"); path != "" {
		return path, nil
	}
	out, err := exec.Command("tdekit", "sqlite", "path").Output()
	return strings.TrimSpace(string(out)), err
}

// loadTdekit registers tdekit in this process. Call it once, before the first encrypted database
// is opened; every later sql.Open("sqlite3", path) opens plain and encrypted databases alike.
func loadTdekit(path string) error {
	sql.Register("sqlite3_tdekit", &sqlite3.SQLiteDriver{Extensions: []string{path}})
	db, err := sql.Open("sqlite3_tdekit", ":memory:")
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Ping()
}
