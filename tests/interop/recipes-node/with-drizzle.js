'use strict';
// Drizzle over better-sqlite3: loaded before the database is opened.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { migrate } = require('drizzle-orm/better-sqlite3/migrator');
const { integer, sqliteTable, text } = require('drizzle-orm/sqlite-core');

// recipe
const Database = require('better-sqlite3');
const { drizzle } = require('drizzle-orm/better-sqlite3');
require('./tdekit').load(Database);

const open = (file) => drizzle(new Database(file));
// end

const note = sqliteTable('note', { id: integer('id').primaryKey(), body: text('body').notNull() });

/** A folder as drizzle-kit makes it. */
function migrations() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'drizzle-'));
  fs.mkdirSync(path.join(folder, 'meta'));
  const entry = { idx: 0, version: '6', when: 1, tag: '0000_note', breakpoints: true };
  const journal = JSON.stringify({ version: '7', dialect: 'sqlite', entries: [entry] });
  fs.writeFileSync(path.join(folder, 'meta/_journal.json'), journal);
  const table = 'CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT NOT NULL);';
  fs.writeFileSync(path.join(folder, '0000_note.sql'), table);
  return folder;
}

function write(file, rows) {
  const db = open(file);
  const folder = migrations();
  migrate(db, { migrationsFolder: folder });
  fs.rmSync(folder, { recursive: true });
  db.transaction((tx) => rows.forEach((row) => tx.insert(note).values(row).run()));
}

const read = (file) => open(file).select().from(note).all();

module.exports = { read, write };
