'use strict';
// Uses one database through the stock better-sqlite3; see tests/interop/README.md.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const Database = require('better-sqlite3');
const tdekit = require('./tdekit');

const ROWS = 1000;
const MARKER = process.env.INTEROP_MARKER;
const SEALED = Boolean(process.env.TDEKIT_EXTENSION);

const body = (i) => `žluťoučký 表 🔑 ${i} ${MARKER}`;
const data = (i) => Buffer.from(Array.from({ length: 300 }, (_, j) => (i * 7 + j * 13) & 0xff));

/** No file beside the database shows the marker; in a plain run at least one does. */
function expectSealedFiles(file, when, mustExist) {
  if (mustExist) {
    assert.ok(fs.statSync(file + mustExist).size > 0, `${mustExist} ${when} holds something`);
  }
  const directory = path.dirname(file);
  const showing = fs.readdirSync(directory)
    .filter((name) => fs.readFileSync(path.join(directory, name)).includes(MARKER));
  assert.equal(showing.length > 0, !SEALED, `files that show the marker ${when}: [${showing}]`);
}

function writeAndChange(db, mode) {
  assert.equal(db.pragma(`journal_mode=${mode}`, { simple: true }), mode);
  const table = `note_${mode}`;
  db.exec(`CREATE TABLE ${table}(id INTEGER PRIMARY KEY, body TEXT, data BLOB, n REAL)`);
  const insert = db.prepare(`INSERT INTO ${table} VALUES(?, ?, ?, ?)`);
  db.transaction(() => {
    for (let i = 1; i <= ROWS; i += 1) insert.run(i, body(i), data(i), i / 4);
  })();
  for (const i of [1, 500, ROWS]) {
    const found = db.prepare(`SELECT body, data, n FROM ${table} WHERE id=?`).get(i);
    assert.deepEqual(found, { body: body(i), data: data(i), n: i / 4 }, `row ${i}`);
  }
  const update = `UPDATE ${table} SET n=-n, body=body||'!' WHERE id%10=0`;
  assert.equal(db.prepare(update).run().changes, 100, 'rows updated');
  const remove = db.prepare(`DELETE FROM ${table} WHERE id%10=5`);
  assert.equal(remove.run().changes, 100, 'rows deleted');
  db.exec(`BEGIN; DELETE FROM ${table}; ROLLBACK`);
  const left = db.prepare(`SELECT count(*), sum(n) FROM ${table}`).raw().get();
  assert.deepEqual(left, [900, 87375], 'rows left');
}

function writeThroughRollbackJournal(db, file) {
  db.pragma('cache_size=10');
  db.exec("BEGIN; UPDATE note_delete SET n=n+1, body=body||'?'");
  expectSealedFiles(file, 'in a transaction', '-journal');
  db.exec('ROLLBACK');
  db.pragma('cache_size=-2000');
}

function attachPlain(db, file) {
  const side = path.join(path.dirname(file), 'side.db');
  db.prepare('ATTACH ? AS side').run(side);
  db.exec(`BEGIN;
    INSERT INTO side.side SELECT id+100, 'from main' FROM note_delete WHERE id<=20;
    UPDATE note_delete SET n=0 WHERE id=1;
    COMMIT`);
  const count = (sql) => db.prepare(sql).pluck().get();
  assert.equal(count('SELECT count(*) FROM side.side'), 28, 'rows in the attached file');
  const join = 'SELECT count(*) FROM side.side s JOIN note_delete n ON s.id=n.id+100';
  assert.equal(count(join), 18, 'joined rows');
  db.exec('DETACH side');
  const head = fs.readFileSync(side).subarray(0, 16).toString('latin1');
  assert.equal(head, 'SQLite format 3\0', 'the attached file stays plain');
}

/** What a fresh process, with the extension if it is told where, says to this file. */
function opensAfresh(file) {
  if (SEALED) tdekit.load(Database);
  try {
    new Database(file).prepare('SELECT count(*) FROM sqlite_master').get();
    return 0;
  } catch (error) {
    console.log(error.message);
    return 1;
  }
}

function expectFreshProcess(file) {
  const env = { ...process.env };
  delete env.TDEKIT_EXTENSION;
  const args = [__filename, '--afresh', file];
  const fresh = spawnSync(process.execPath, args, { env, encoding: 'utf8' });
  assert.equal(fresh.status, Number(SEALED), `without the extension: ${fresh.stderr}`);
  assert.equal(fresh.stdout.trim(), SEALED ? 'file is not a database' : '');
}

function run(file) {
  assert.ok(MARKER, 'INTEROP_MARKER is not set');
  if (SEALED) tdekit.load(Database);
  const db = new Database(file);
  const seed = db.prepare('SELECT count(*), sum(id) FROM seed').raw().get();
  assert.deepEqual(seed, [500, 125250], 'seed');
  const name = db.prepare('SELECT name FROM seed WHERE id=7').pluck().get();
  assert.equal(name, `seed 7 ${MARKER}`, 'row of seed');
  writeAndChange(db, 'wal');
  expectSealedFiles(file, 'in WAL mode', '-wal');
  writeAndChange(db, 'delete');
  writeThroughRollbackJournal(db, file);
  attachPlain(db, file);
  assert.equal(db.pragma('integrity_check', { simple: true }), 'ok', 'integrity_check');
  const version = db.prepare('SELECT sqlite_version()').pluck().get();
  db.close();
  expectSealedFiles(file, 'at rest');
  expectFreshProcess(file);
  const way = SEALED ? 'with the extension' : 'without the extension';
  console.log(`node: ok (SQLite ${version}, ${way})`);
}

if (process.argv[2] === '--afresh') {
  process.exitCode = opensAfresh(process.argv[3]);
} else {
  try {
    run(process.argv[2]);
  } catch (error) {
    console.error(`node: FAILED: ${error.message}`);
    process.exitCode = 1;
  }
}
