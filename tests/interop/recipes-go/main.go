// Uses a database through one tool, as docs/recipes.md describes; see tests/interop/README.md.
//
// `recipes TOOL write|read DATABASE`: makes the table by the tool's own means and writes the rows,
// or prints their number and sum. The program loads nothing of tdekit: the recipes do.
package main

import (
	"fmt"
	"os"
	"strconv"
)

type note struct {
	ID   int
	Body string
}

type recipe struct {
	write func(path string, rows []note) error
	read  func(path string) ([]note, error)
}

var recipes = map[string]recipe{
	"gorm": {writeGorm, readGorm},
	"sqlx": {writeSqlx, readSqlx},
}

func wanted() []note {
	rows := make([]note, 100)
	for i := range rows {
		rows[i] = note{i + 1, "note " + strconv.Itoa(i+1) + " " + os.Getenv("INTEROP_MARKER")}
	}
	return rows
}

func run(tool, work, path string) error {
	recipe, found := recipes[tool]
	if !found {
		return fmt.Errorf("no recipe %s", tool)
	}
	if work == "write" {
		return recipe.write(path, wanted())
	}
	rows, err := recipe.read(path)
	if err != nil {
		return err
	}
	if fmt.Sprint(rows) != fmt.Sprint(wanted()) {
		return fmt.Errorf("%s read other rows: %v", tool, rows)
	}
	sum := 0
	for _, row := range rows {
		sum += row.ID
	}
	fmt.Println(len(rows), sum)
	return nil
}

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "recipes:", err)
		os.Exit(1)
	}
}
