package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-sql/civil"
	"github.com/golang-sql/sqlexp"
	mssql "github.com/microsoft/go-mssqldb"
)

// A column of a type: its declaration, a literal of T-SQL, a parameter, and what is read.
type column struct {
	declaration, literal string
	sent, read           any
}

func moment(zone *time.Location, values ...int) time.Time {
	return time.Date(values[0], time.Month(values[1]), values[2], values[3], values[4], values[5],
		values[6], zone)
}

var guid = mssql.UniqueIdentifier{0x6f, 0x96, 0x19, 0xff, 0x8b, 0x86, 0xd0, 0x11, 0xb4, 0x2d, 0,
	0xc0, 0x4f, 0xc9, 0x64, 0xff}

func columns() []column {
	utc, east := time.UTC, time.FixedZone("", 19800)
	offset := moment(east, 2024, 2, 29, 13, 14, 15, 123456700)
	second := moment(utc, 1, 1, 1, 23, 59, 59, 999999900)
	early := moment(utc, 1753, 1, 1, 12, 34, 56, 790000000)
	mixed, _ := guid.Value()
	decimal := "1234567890123456789012345678.0123456789"
	return []column{
		{"bit", "1", true, true},
		{"tinyint", "255", 255, int64(255)},
		{"smallint", "-32768", -32768, int64(-32768)},
		{"int", "-2147483648", -2147483648, int64(-2147483648)},
		{"bigint", "9223372036854775807", int64(9223372036854775807), int64(9223372036854775807)},
		{"real", "0.25", 0.25, 0.25},
		{"float", "1.7976931348623157E308", 1.7976931348623157e308, 1.7976931348623157e308},
		{"decimal(38, 10)", decimal, decimal, []byte(decimal)},
		{"numeric(9, 2)", "-1234567.89", "-1234567.89", []byte("-1234567.89")},
		{"money", "922337203685477.5807", "922337203685477.5807", []byte("922337203685477.5807")},
		{"smallmoney", "-214748.3648", "-214748.3648", []byte("-214748.3648")},
		{"char(8)", "'a€c'", "a€c", "a€c     "},
		{"varchar(50)", "'it''s'", mssql.VarChar("it's"), "it's"},
		{"varchar(max)", "'long é'", "long é", "long é"},
		{"nchar(4)", "N'日本'", "日本", "日本  "},
		{"nvarchar(50)", "N'" + text + "'", text, text},
		{"nvarchar(max)", "N'" + text + "'", mssql.NVarCharMax(text), text},
		{"binary(4)", "0xFF00", []byte{255, 0}, []byte{255, 0, 0, 0}},
		{"varbinary(50)", "0x00FF10", []byte{0, 255, 16}, []byte{0, 255, 16}},
		{"varbinary(max)", "0xFF0000", []byte{255, 0, 0}, []byte{255, 0, 0}},
		{"date", "'9999-12-31'", civil.Date{Year: 9999, Month: 12, Day: 31},
			moment(utc, 9999, 12, 31, 0, 0, 0, 0)},
		{"time(7)", "'23:59:59.9999999'", civil.TimeOf(second), second},
		{"datetime", "'1753-01-01T12:34:56.790'", mssql.DateTime1(early), early},
		{"smalldatetime", "'2079-06-06T23:59:00'", moment(utc, 2079, 6, 6, 23, 59, 0, 0),
			moment(utc, 2079, 6, 6, 23, 59, 0, 0)},
		{"datetime2(7)", "'0001-01-01T00:00:00.0000001'", moment(utc, 1, 1, 1, 0, 0, 0, 100),
			moment(utc, 1, 1, 1, 0, 0, 0, 100)},
		{"datetimeoffset(7)", "'2024-02-29T13:14:15.1234567+05:30'", mssql.DateTimeOffset(offset),
			offset},
		{"uniqueidentifier", "'6F9619FF-8B86-D011-B42D-00C04FC964FF'", guid, mixed},
		{"text", "'text'", mssql.VarCharMax("text"), "text"},
		{"ntext", "N'" + text + "'", text, text},
		{"image", "0x00CAFE", []byte{0, 0xca, 0xfe}, []byte{0, 0xca, 0xfe}},
		{"xml", "N'" + text + "'", text, text},
	}
}

// A row by literals, one by parameters, one of NULLs; all are read alike.
func types(db *sql.DB) {
	table, all := "dbo.types_"+mode, columns()
	var definitions, literals, marks []string
	sent := []any{2}
	for at, each := range all {
		definitions = append(definitions, fmt.Sprintf("c%d %s NULL", at, each.declaration))
		literals = append(literals, each.literal)
		marks = append(marks, fmt.Sprintf("@p%d", at+2))
		sent = append(sent, each.sent)
	}
	exec(db, "CREATE TABLE "+table+" (id int NOT NULL PRIMARY KEY, "+
		strings.Join(definitions, ", ")+")")
	exec(db, "INSERT INTO "+table+" VALUES (1, "+strings.Join(literals, ", ")+")")
	exec(db, "INSERT INTO "+table+" VALUES (@p1, "+strings.Join(marks, ", ")+")", sent...)
	exec(db, "INSERT INTO "+table+" (id) VALUES (3)")
	for id := 1; id <= 3; id++ {
		rows, err := db.Query("SELECT * FROM "+table+" WHERE id = @p1", id)
		check(err)
		if !rows.Next() {
			check(fmt.Errorf("no row %d: %w", id, rows.Err()))
		}
		found, to := make([]any, len(all)+1), make([]any, len(all)+1)
		for at := range found {
			to[at] = &found[at]
		}
		check(rows.Scan(to...))
		check(rows.Close())
		for at, each := range all {
			wanted := each.read
			if id == 3 {
				wanted = nil
			}
			if !alike(found[at+1], wanted) {
				check(fmt.Errorf("%s in row %d: %v, not %v", each.declaration, id, found[at+1], wanted))
			}
		}
	}
}

func alike(found, wanted any) bool {
	switch wanted := wanted.(type) {
	case []byte:
		bytes_, ok := found.([]byte)
		return ok && bytes.Equal(bytes_, wanted)
	case time.Time:
		at, ok := found.(time.Time)
		_, one := at.Zone()
		_, other := wanted.Zone()
		return ok && at.Equal(wanted) && one == other
	default:
		return found == wanted
	}
}

func longValues(db *sql.DB) {
	table := "dbo.long_" + mode
	exec(db, "CREATE TABLE "+table+" (id int NOT NULL PRIMARY KEY, a varchar(max), "+
		"b nvarchar(max), c varbinary(max))")
	narrow, wide := strings.Repeat("abcé", 250000), strings.Repeat("Ω日", 500000)
	data := bytes.Repeat([]byte("\x00\xff\x10\x20"), 250000)
	exec(db, "INSERT INTO "+table+" VALUES (1, @p1, @p2, @p3)", narrow, wide, data)
	var a, b string
	var c []byte
	check(db.QueryRow("SELECT a, b, c FROM "+table).Scan(&a, &b, &c))
	same(a == narrow && b == wide && bytes.Equal(c, data), true)
	same(value[int](db, "SELECT LEN(b) FROM "+table), 1000000)
}

func bulk(db *sql.DB) {
	table := "bulk_" + mode
	makeTable(db, table)
	tx := begin(db)
	load, err := tx.Prepare(mssql.CopyIn(table, mssql.BulkOptions{KeepNulls: true}, "id", "name",
		"amount", "at", "data"))
	check(err)
	for id := range 1000 {
		_, err = load.Exec(row(id)...)
		check(err)
	}
	result, err := load.Exec()
	check(err)
	count, err := result.RowsAffected()
	check(err)
	same(count, int64(1000))
	check(load.Close())
	check(tx.Commit())
	compare(db, table)
}

func results(db *sql.DB) {
	rows, err := db.Query("SELECT 1; SELECT N'ä' UNION ALL SELECT N'ö'")
	check(err)
	var number int
	same(rows.Next(), true)
	check(rows.Scan(&number))
	same(number, 1)
	same(rows.Next(), false)
	if !rows.NextResultSet() {
		check(fmt.Errorf("no second result: %w", rows.Err()))
	}
	var all, each string
	for rows.Next() {
		check(rows.Scan(&each))
		all += each
	}
	same(all, "äö")
	same(rows.NextResultSet(), false)
	check(rows.Close())
}

func procedure(db *sql.DB) {
	name := "dbo.double_" + mode
	exec(db, "CREATE PROCEDURE "+name+" @n int, @twice int OUTPUT AS "+
		"BEGIN SET @twice = @n * 2; RETURN 7; END")
	var status mssql.ReturnStatus
	var twice int
	_, err := db.Exec(name, sql.Named("n", 21), sql.Named("twice", sql.Out{Dest: &twice}), &status)
	check(err)
	same(int(status), 7)
	same(twice, 42)
}

func messages(db *sql.DB) {
	said := &sqlexp.ReturnMessage{}
	rows, err := db.QueryContext(background, "PRINT N'printed é'; RAISERROR('warned %d', 10, 1, 5)",
		said)
	check(err)
	defer rows.Close()
	var texts []string
	for more := true; more; {
		switch message := said.Message(background).(type) {
		case sqlexp.MsgNotice:
			texts = append(texts, fmt.Sprint(message.Message))
		case sqlexp.MsgError:
			check(message.Error)
		case sqlexp.MsgNextResultSet:
			more = rows.NextResultSet()
		case sqlexp.MsgNext:
			for rows.Next() {
			}
		}
	}
	all := strings.Join(texts, "\n")
	if !strings.Contains(all, "printed é") || !strings.Contains(all, "warned 5") {
		check(fmt.Errorf("messages: %s", all))
	}
}

func cancel(db *sql.DB) {
	conn, err := db.Conn(background)
	check(err)
	defer conn.Close()
	for _, query := range []string{
		"DECLARE @i bigint = 0; WHILE 1 = 1 SET @i += 1",
		"WAITFOR DELAY '00:01:00'",
	} {
		begun := time.Now()
		// The driver gives up a connection whose statement ran into a deadline.
		ctx, stop := context.WithCancel(background)
		time.AfterFunc(300*time.Millisecond, stop)
		_, err := conn.ExecContext(ctx, query)
		same(errors.Is(err, context.Canceled), true)
		same(time.Since(begun) < 30*time.Second, true)
		var five int
		check(conn.QueryRowContext(background, "SELECT 5").Scan(&five))
		same(five, 5)
	}
}
