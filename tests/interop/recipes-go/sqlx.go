package main

// recipe
import (
	"github.com/jmoiron/sqlx"
	_ "github.com/mattn/go-sqlite3"
	tdekit "tdekit/go"
)

func openSqlx(path string) (*sqlx.DB, error) {
	if err := tdekit.Load(""); err != nil {
		return nil, err
	}
	return sqlx.Connect("sqlite3", path)
}

// end

func writeSqlx(path string, rows []note) error {
	db, err := openSqlx(path)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT NOT NULL)"); err != nil {
		return err
	}
	_, err = db.NamedExec("INSERT INTO note(id, body) VALUES (:id, :body)", rows)
	return err
}

func readSqlx(path string) ([]note, error) {
	db, err := openSqlx(path)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var rows []note
	return rows, db.Select(&rows, "SELECT id, body FROM note ORDER BY id")
}
