module tdekit/recipes

go 1.22

require (
	github.com/jmoiron/sqlx v1.4.0
	github.com/mattn/go-sqlite3 v1.14.34
	gorm.io/driver/sqlite v1.6.0
	gorm.io/gorm v1.31.0
	tdekit/go v0.0.0
)

require (
	github.com/jinzhu/inflection v1.0.0 // indirect
	github.com/jinzhu/now v1.1.5 // indirect
	golang.org/x/text v0.20.0 // indirect
)

replace tdekit/go => ../../../packages/go
