'use strict';
// TypeORM over better-sqlite3: loaded before the data source is initialised.

// recipe
require('reflect-metadata');
const { DataSource } = require('typeorm');
require('./tdekit').load(require('better-sqlite3'));

const open = (database, more) => new DataSource({ type: 'better-sqlite3', database, ...more });
// end

const { EntitySchema } = require('typeorm');

const Note = new EntitySchema({
  name: 'Note',
  tableName: 'note',
  columns: { id: { type: Number, primary: true }, body: { type: String } },
});

class Note1700000000000 {
  async up(runner) {
    await runner.query('CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT NOT NULL)');
  }

  async down(runner) {
    await runner.query('DROP TABLE note');
  }
}

async function write(file, rows) {
  const source = open(file, { entities: [Note], migrations: [Note1700000000000] });
  await source.initialize();
  await source.runMigrations();
  await source.getRepository(Note).insert(rows);
  await source.destroy();
}

async function read(file) {
  const source = open(file, { entities: [Note] });
  await source.initialize();
  const rows = await source.getRepository(Note).find();
  await source.destroy();
  return rows;
}

module.exports = { read, write };
