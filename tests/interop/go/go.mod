module tdekit/interop

go 1.19

require (
	github.com/mattn/go-sqlite3 v1.14.34
	tdekit/go v0.0.0
)

replace tdekit/go => ../../../packages/go
