// go-mssqldb against `tdekit serve`.
//
// usage: client PORT off|login|on|strict CERTIFICATE OTHER_CERTIFICATE
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
)

const text = "Grüße, Ω, 日本, \U0001f600"

var (
	port, mode = os.Args[1], os.Args[2]
	marker     = os.Getenv("INTEROP_MARKER")
	background = context.Background()
)

func main() {
	logIn()
	db := open(os.Getenv("INTEROP_PASSWORD"), os.Args[3])
	sealed := map[string]string{"off": "FALSE", "login": "FALSE", "on": "TRUE", "strict": "TRUE"}
	same(value[string](db, "SELECT encrypt_option FROM sys.dm_exec_connections "+
		"WHERE session_id = @@SPID"), sealed[mode])
	types(db)
	rows(db)
	change(db)
	longValues(db)
	bulk(db)
	refusals(db)
	results(db)
	procedure(db)
	messages(db)
	cancel(db)
	check(db.Close())
	fmt.Println("go-mssqldb", mode+": ok")
}

// The names of the ways to encrypt, as the driver calls them.
var encrypt = map[string]string{
	"off": "disable", "login": "false", "on": "true", "strict": "strict",
}

func open(password, certificate string) *sql.DB {
	query := url.Values{"database": {"app"}, "encrypt": {encrypt[mode]}}
	if mode == "on" || mode == "strict" {
		query.Set("certificate", certificate)
	} else {
		query.Set("TrustServerCertificate", "true")
	}
	address := url.URL{Scheme: "sqlserver", User: url.UserPassword("sa", password),
		Host: "localhost:" + port, RawQuery: query.Encode()}
	db, err := sql.Open("sqlserver", address.String())
	check(err)
	return db
}

func logIn() {
	number(open("not the password", os.Args[3]).Ping(), 18456)
	if mode == "on" || mode == "strict" {
		err := open(os.Getenv("INTEROP_PASSWORD"), os.Args[4]).Ping()
		same(err != nil, true)
		var own mssql.Error
		same(errors.As(err, &own), false)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "go-mssqldb %s: %v\n", mode, err)
		panic(err)
	}
}

func same(found, wanted any) {
	if found != wanted {
		check(fmt.Errorf("%.300v, not %.300v", found, wanted))
	}
}

// An error of the server's with this number.
func number(err error, wanted int32) {
	var own mssql.Error
	if !errors.As(err, &own) || own.Number != wanted {
		check(fmt.Errorf("error %d wanted, not %v", wanted, err))
	}
}

func exec(db interface {
	Exec(string, ...any) (sql.Result, error)
}, query string, args ...any) int64 {
	result, err := db.Exec(query, args...)
	check(err)
	count, err := result.RowsAffected()
	check(err)
	return count
}

func value[T any](db interface {
	QueryRow(string, ...any) *sql.Row
}, query string, args ...any) (found T) {
	check(db.QueryRow(query, args...).Scan(&found))
	return found
}

func begin(db *sql.DB) *sql.Tx {
	tx, err := db.Begin()
	check(err)
	return tx
}

// A row of the tables that are filled; every tenth has NULLs.
func row(id int) []any {
	if id%10 == 9 {
		return []any{id, nil, nil, nil, nil}
	}
	at := time.Date(2024, 2, 29, 13, 14, 15, id*100, time.UTC)
	return []any{id, fmt.Sprint(text, " ", id, " ", marker), fmt.Sprintf("%d.0625", id), at,
		[]byte{255, byte(id >> 8), byte(id)}}
}

func makeTable(db *sql.DB, table string) {
	exec(db, "CREATE TABLE "+table+" (id int NOT NULL PRIMARY KEY, name nvarchar(100), "+
		"amount decimal(19, 4), at datetime2(7), data varbinary(100))")
}

func compare(db *sql.DB, table string) {
	found, err := db.Query("SELECT id, name, amount, at, data FROM " + table + " ORDER BY id")
	check(err)
	defer found.Close()
	count := 0
	for ; found.Next(); count++ {
		var id int
		var name, amount sql.NullString
		var at sql.NullTime
		var data []byte
		check(found.Scan(&id, &name, &amount, &at, &data))
		wanted := row(count)
		same(id, wanted[0])
		if wanted[1] == nil {
			same(name.Valid || amount.Valid || at.Valid || data != nil, false)
			continue
		}
		same(name.String, wanted[1])
		same(amount.String, wanted[2])
		same(at.Time.Equal(wanted[3].(time.Time)), true)
		same(string(data), string(wanted[4].([]byte)))
	}
	check(found.Err())
	same(count, 1000)
}

func rows(db *sql.DB) {
	table := "dbo.rows_" + mode
	makeTable(db, table)
	tx := begin(db)
	statement, err := tx.Prepare("INSERT INTO " + table + " VALUES (@p1, @p2, @p3, @p4, @p5)")
	check(err)
	for id := range 1000 {
		values := row(id)
		if values[4] == nil {
			same(exec(tx, "INSERT INTO "+table+" (id) VALUES (@p1)", id), int64(1))
			continue
		}
		_, err = statement.Exec(values...)
		check(err)
	}
	check(statement.Close())
	check(tx.Commit())
	compare(db, table)
}

func change(db *sql.DB) {
	table := "dbo.rows_" + mode
	same(exec(db, "UPDATE "+table+" SET name = @p1 WHERE id < @p2", "new", 100), int64(100))
	same(exec(db, "DELETE FROM "+table+" WHERE id >= @p1", 900), int64(100))
	tx := begin(db)
	same(exec(tx, "DELETE FROM "+table), int64(900))
	same(value[int](tx, "SELECT COUNT(*) FROM "+table), 0)
	check(tx.Rollback())
	same(value[int](db, "SELECT COUNT(*) FROM "+table), 900)
	same(value[int](db, "SELECT COUNT(*) FROM "+table+" WHERE name = @p1", "new"), 100)
	statement, err := db.Prepare("SELECT COUNT(*) FROM " + table + " WHERE id < @p1")
	check(err)
	for _, wanted := range []int{10, 50} {
		var count int
		check(statement.QueryRow(wanted).Scan(&count))
		same(count, wanted)
	}
	check(statement.Close())
}

func refusals(db *sql.DB) {
	table := "dbo.strict_" + mode
	exec(db, "CREATE TABLE "+table+" (id int NOT NULL PRIMARY KEY, n int CHECK (n > 0))")
	insert := "INSERT INTO " + table + " VALUES (@p1, @p2)"
	same(exec(db, insert, 1, 1), int64(1))
	for _, refused := range []struct {
		number int32
		query  string
		args   []any
	}{
		{2627, insert, []any{1, 2}},
		{547, insert, []any{2, -1}},
		{8134, "SELECT 1 / 0", nil},
		{102, "SELECT 1 + * FROM", nil},
		{208, "SELECT * FROM dbo.not_there", nil},
		{50000, "RAISERROR('mine', 16, 1)", nil},
	} {
		_, err := db.Exec(refused.query, refused.args...)
		number(err, refused.number)
	}
	same(value[int](db, "SELECT COUNT(*) FROM "+table), 1)
}
