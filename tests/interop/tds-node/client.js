// tedious against `tdekit serve`.
//
// usage: client.js PORT off|on|strict CERTIFICATE OTHER_CERTIFICATE
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const { Connection, Request, TYPES } = require('tedious');
const { TEXT, types } = require('./types.js');

const [, , port, mode, certificate, otherCertificate] = process.argv;
const password = process.env.INTEROP_PASSWORD;
const marker = process.env.INTEROP_MARKER;

function open(givenPassword, trusted) {
  const connection = new Connection({
    server: 'localhost',
    authentication: { type: 'default', options: { userName: 'sa', password: givenPassword } },
    options: {
      port: Number(port),
      database: 'app',
      encrypt: { off: false, on: true, strict: 'strict' }[mode],
      trustServerCertificate: false,
      cryptoCredentialsDetails: { ca: fs.readFileSync(trusted) },
      requestTimeout: 60000,
    },
  });
  return new Promise((resolve, reject) => {
    connection.connect((error) => (error ? reject(error) : resolve(connection)));
  });
}

// Runs a request; `send` is what the driver calls its kind.
function run(connection, sql, parameters = [], { send = 'execSql', cancelAfterMs = 0 } = {}) {
  return new Promise((resolve, reject) => {
    const results = [];
    const out = {};
    let status;
    const request = new Request(sql, (error, count) => {
      if (error) reject(error);
      else resolve({ rows: results.at(-1) ?? [], results, count, out, status });
    });
    for (const [name, type, value, options] of parameters) {
      if (options?.output) request.addOutputParameter(name, type);
      else request.addParameter(name, type, value, options);
    }
    request.on('columnMetadata', () => results.push([]));
    request.on('row', (columns) => results.at(-1).push(columns.map((column) => column.value)));
    request.on('returnValue', (name, value) => (out[name] = value));
    request.on('doneProc', (count, more, returned) => (status = returned));
    connection[send](request);
    if (cancelAfterMs > 0) setTimeout(() => connection.cancel(), cancelAfterMs);
  });
}

const batch = (connection, sql) => run(connection, sql, [], { send: 'execSqlBatch' });

async function one(connection, sql) {
  return (await run(connection, sql)).rows[0][0];
}

function transaction(connection, verb) {
  return new Promise((resolve, reject) => {
    connection[verb]((error) => (error ? reject(error) : resolve()));
  });
}

async function logIn() {
  await assert.rejects(open('not the password', certificate), /Login failed/);
  if (mode !== 'off') {
    await assert.rejects(open(password, otherCertificate), /certificate|verif/i);
  }
  const connection = await open(password, certificate);
  const option = 'SELECT encrypt_option FROM sys.dm_exec_connections WHERE session_id = @@SPID';
  assert.strictEqual(await one(connection, option), mode === 'off' ? 'FALSE' : 'TRUE');
  return connection;
}

// A row by literals, one by parameters, one of NULLs; all are read alike.
async function readTypes(connection) {
  const table = `dbo.types_${mode}`;
  const all = types(TYPES);
  const columns = all.map((each, at) => `c${at} ${each.declaration} NULL`).join(', ');
  await batch(connection, `CREATE TABLE ${table} (id int NOT NULL PRIMARY KEY, ${columns})`);
  const literals = all.map((each) => each.literal).join(', ');
  await batch(connection, `INSERT INTO ${table} VALUES (1, ${literals})`);
  const marks = all.map((each, at) => `@p${at}`).join(', ');
  for (const id of [2, 3]) {
    const parameters = all.map((each, at) => {
      return [`p${at}`, each.type, id === 3 ? null : (each.sent ?? each.read), each.options];
    });
    await run(connection, `INSERT INTO ${table} VALUES (${id}, ${marks})`, parameters);
  }
  const names = all.map((each, at) => (each.shown ? `CONVERT(varchar(50), c${at})` : `c${at}`));
  for (const id of [1, 2, 3]) {
    const select = `SELECT ${names.join(', ')} FROM ${table} WHERE id = @id`;
    const [found] = (await run(connection, select, [['id', TYPES.Int, id]])).rows;
    all.forEach((each, at) => {
      const wanted = id === 3 ? null : (each.shown ?? each.read);
      assert.deepStrictEqual(found[at], wanted, `${each.declaration} in row ${id}`);
    });
  }
}

// A row of the tables that are filled; every tenth has NULLs.
function row(id) {
  if (id % 10 === 9) return [id, null, null, null, null];
  const at = new Date(Date.UTC(2024, 1, 29, 13, 14, 15, id));
  return [id, `${TEXT} ${id} ${marker}`, id + 0.0625, at, Buffer.from([255, id >> 8, id & 255])];
}

const COLUMNS = [
  ['id', TYPES.Int, { nullable: false }],
  ['name', TYPES.NVarChar, { length: 100, nullable: true }],
  ['amount', TYPES.Decimal, { precision: 19, scale: 4, nullable: true }],
  ['at', TYPES.DateTime2, { scale: 3, nullable: true }],
  ['data', TYPES.VarBinary, { length: 100, nullable: true }],
];

async function makeTable(connection, table) {
  const columns = 'name nvarchar(100), amount decimal(19, 4), at datetime2(3), data varbinary(100)';
  await batch(connection, `CREATE TABLE ${table} (id int NOT NULL PRIMARY KEY, ${columns})`);
}

async function compare(connection, table) {
  const select = `SELECT id, name, amount, at, data FROM ${table} ORDER BY id`;
  const { rows } = await run(connection, select);
  assert.strictEqual(rows.length, 1000);
  rows.forEach((found, id) => assert.deepStrictEqual(found, row(id)));
}

async function fill(connection) {
  const table = `dbo.rows_${mode}`;
  await makeTable(connection, table);
  await transaction(connection, 'beginTransaction');
  const insert = `INSERT INTO ${table} VALUES (@id, @name, @amount, @at, @data)`;
  for (let id = 0; id < 500; id += 1) {
    const parameters = row(id).map((value, at) => {
      const [name, type, options] = COLUMNS[at];
      return [name, type, value, options];
    });
    await run(connection, insert, parameters);
  }
  let settle;
  const prepared = new Request(insert, (error) => settle(error));
  prepared.on('prepared', () => settle());
  COLUMNS.forEach(([name, type, options]) => prepared.addParameter(name, type, null, options));
  const step = (start) => {
    return new Promise((resolve, reject) => {
      settle = (error) => (error ? reject(error) : resolve());
      start();
    });
  };
  await step(() => connection.prepare(prepared));
  for (let id = 500; id < 1000; id += 1) {
    const named = Object.fromEntries(COLUMNS.map(([name], at) => [name, row(id)[at]]));
    await step(() => connection.execute(prepared, named));
  }
  await step(() => connection.unprepare(prepared));
  await transaction(connection, 'commitTransaction');
  await compare(connection, table);
}

async function change(connection) {
  const table = `dbo.rows_${mode}`;
  const count = (of = '') => one(connection, `SELECT COUNT(*) FROM ${table} ${of}`);
  const hundred = [['n', TYPES.Int, 100]];
  const update = `UPDATE ${table} SET name = 'new' WHERE id < @n`;
  assert.strictEqual((await run(connection, update, hundred)).count, 100);
  const remove = `DELETE FROM ${table} WHERE id >= 1000 - @n`;
  assert.strictEqual((await run(connection, remove, hundred)).count, 100);
  await transaction(connection, 'beginTransaction');
  assert.strictEqual((await run(connection, `DELETE FROM ${table}`)).count, 900);
  assert.strictEqual(await count(), 0);
  await transaction(connection, 'rollbackTransaction');
  assert.strictEqual(await count(), 900);
  assert.strictEqual(await count("WHERE name = 'new'"), 100);
}

async function longValues(connection) {
  const table = `dbo.long_${mode}`;
  const columns = 'a varchar(max), b nvarchar(max), c varbinary(max)';
  await batch(connection, `CREATE TABLE ${table} (id int NOT NULL PRIMARY KEY, ${columns})`);
  const narrow = 'abcé'.repeat(250000);
  const wide = 'Ω日'.repeat(500000);
  const data = Buffer.alloc(1000000, Buffer.from([0, 255, 16, 32]));
  await run(connection, `INSERT INTO ${table} VALUES (1, @a, @b, @c)`, [
    ['a', TYPES.VarChar, narrow],
    ['b', TYPES.NVarChar, wide],
    ['c', TYPES.VarBinary, data],
  ]);
  const [found] = (await run(connection, `SELECT a, b, c FROM ${table}`)).rows;
  assert.ok(found[0] === narrow && found[1] === wide && found[2].equals(data), 'long values');
  assert.strictEqual(await one(connection, `SELECT LEN(b) FROM ${table}`), '1000000');
}

async function bulk(connection) {
  const table = `dbo.bulk_${mode}`;
  await makeTable(connection, table);
  const loaded = await new Promise((resolve, reject) => {
    const load = connection.newBulkLoad(table, { keepNulls: true }, (error, count) => {
      if (error) reject(error);
      else resolve(count);
    });
    COLUMNS.forEach(([name, type, options]) => load.addColumn(name, type, options));
    connection.execBulkLoad(load, Array.from({ length: 1000 }, (_, id) => row(id)));
  });
  assert.strictEqual(loaded, 1000);
  await compare(connection, table);
}

async function refusals(connection) {
  const table = `dbo.strict_${mode}`;
  const columns = 'id int NOT NULL PRIMARY KEY, n int CHECK (n > 0)';
  await batch(connection, `CREATE TABLE ${table} (${columns})`);
  const insert = (id, n) => {
    const parameters = [['id', TYPES.Int, id], ['n', TYPES.Int, n]];
    return run(connection, `INSERT INTO ${table} VALUES (@id, @n)`, parameters);
  };
  await insert(1, 1);
  await assert.rejects(insert(1, 2), { number: 2627 });
  await assert.rejects(insert(2, -1), { number: 547 });
  await assert.rejects(run(connection, 'SELECT 1 / 0'), { number: 8134 });
  await assert.rejects(batch(connection, 'SELECT 1 + * FROM'), { number: 102 });
  await assert.rejects(run(connection, 'SELECT * FROM dbo.not_there'), { number: 208 });
  await assert.rejects(batch(connection, "RAISERROR('mine', 16, 1)"), { number: 50000 });
  assert.strictEqual(await one(connection, `SELECT COUNT(*) FROM ${table}`), 1);
}

async function results(connection) {
  const sql = "SELECT 1 AS a; SELECT 2 AS b, N'ä' AS c UNION ALL SELECT 3, N'ö'";
  const expected = [[[1]], [[2, 'ä'], [3, 'ö']]];
  assert.deepStrictEqual((await batch(connection, sql)).results, expected);
  const name = `dbo.double_${mode}`;
  const body = 'BEGIN SET @twice = @n * 2; SELECT @n AS n; RETURN 7; END';
  await batch(connection, `CREATE PROCEDURE ${name} @n int, @twice int OUTPUT AS ${body}`);
  const parameters = [['n', TYPES.Int, 21], ['twice', TYPES.Int, null, { output: true }]];
  const called = await run(connection, name, parameters, { send: 'callProcedure' });
  assert.deepStrictEqual([called.status, called.out, called.rows], [7, { twice: 42 }, [[21]]]);
  const texts = [];
  const listen = (message) => texts.push(message.message);
  connection.on('infoMessage', listen);
  await batch(connection, "PRINT N'printed é'; RAISERROR('warned %d', 10, 1, 5)");
  connection.off('infoMessage', listen);
  assert.deepStrictEqual(texts, ['printed é', 'warned 5']);
}

async function cancel(connection) {
  const endless = 'DECLARE @i bigint = 0; WHILE 1 = 1 SET @i += 1';
  for (const sql of [endless, "WAITFOR DELAY '00:01:00'"]) {
    const begun = Date.now();
    await assert.rejects(run(connection, sql, [], { cancelAfterMs: 300 }), /Canceled/);
    assert.ok(Date.now() - begun < 30000, 'the cancelling took too long');
    assert.strictEqual(await one(connection, 'SELECT 5'), 5);
  }
}

async function main() {
  const connection = await logIn();
  for (const work of [readTypes, fill, change, longValues, bulk, refusals, results, cancel]) {
    await work(connection);
  }
  connection.close();
  console.log(`tedious ${mode}: ok`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
