'use strict';
// Prisma's driver adapter over better-sqlite3, which a PrismaClient is given: loaded before the
// client makes its first connection.

// recipe
const { PrismaBetterSqlite3 } = require('@prisma/adapter-better-sqlite3');
require('./tdekit').load(require('better-sqlite3'));

const adapter = (file) => new PrismaBetterSqlite3({ url: `file:${file}` });
// end

async function write(file, rows) {
  const db = await adapter(file).connect();
  await db.executeScript('CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT NOT NULL)');
  const work = await db.startTransaction();
  for (const { id, body } of rows) {
    const argTypes = ['int', 'string'].map((scalarType) => ({ scalarType, arity: 'scalar' }));
    await work.executeRaw({ sql: 'INSERT INTO note VALUES(?, ?)', args: [id, body], argTypes });
  }
  await work.executeRaw({ sql: 'COMMIT', args: [], argTypes: [] });
  await work.commit();
  await db.dispose();
}

async function read(file) {
  const db = await adapter(file).connect();
  const found = await db.queryRaw({ sql: 'SELECT id, body FROM note', args: [], argTypes: [] });
  await db.dispose();
  return found.rows.map(([id, body]) => ({ id: Number(id), body }));
}

module.exports = { read, write };
