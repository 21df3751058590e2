package main

// recipe
import (
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	tdekit "tdekit/go"
)

func openGorm(path string) (*gorm.DB, error) {
	if err := tdekit.Load(""); err != nil {
		return nil, err
	}
	return gorm.Open(sqlite.Open(path), &gorm.Config{})
}

// end

type gormNote struct {
	ID   int `gorm:"primaryKey"`
	Body string
}

func (gormNote) TableName() string { return "note" }

func writeGorm(path string, rows []note) error {
	db, err := openGorm(path)
	if err != nil {
		return err
	}
	if err := db.AutoMigrate(&gormNote{}); err != nil {
		return err
	}
	return db.Transaction(func(tx *gorm.DB) error {
		for _, row := range rows {
			if err := tx.Create(&gormNote{row.ID, row.Body}).Error; err != nil {
				return err
			}
		}
		return nil
	})
}

func readGorm(path string) ([]note, error) {
	db, err := openGorm(path)
	if err != nil {
		return nil, err
	}
	var found []gormNote
	if err := db.Order("id").Find(&found).Error; err != nil {
		return nil, err
	}
	rows := make([]note, len(found))
	for i, row := range found {
		rows[i] = note(row)
	}
	return rows, nil
}
