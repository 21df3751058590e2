'use strict';
// Knex over better-sqlite3: loaded before the pool makes its first connection.

// recipe
const knex = require('knex');
require('./tdekit').load(require('better-sqlite3'));

const open = (filename) => knex({
  client: 'better-sqlite3',
  connection: { filename },
  useNullAsDefault: true,
});
// end

const migrationSource = {
  getMigrations: async () => ['0001_note'],
  getMigrationName: (name) => name,
  getMigration: async () => ({
    up: (db) => db.schema.createTable('note', (table) => {
      table.integer('id').primary();
      table.text('body').notNullable();
    }),
    down: (db) => db.schema.dropTable('note'),
  }),
};

async function write(file, rows) {
  const db = open(file);
  await db.migrate.latest({ migrationSource });
  await db.batchInsert('note', rows);
  await db.destroy();
}

async function read(file) {
  const db = open(file);
  try {
    return await db('note').select();
  } finally {
    await db.destroy();
  }
}

module.exports = { read, write };
