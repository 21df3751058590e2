'use strict';
// Proves the npm packages as a user meets them: `node prove.js DRIVER`, in a project that has the
// packages and that driver installed. A home of its own, a key store, a database that is
// encrypted, opened again in other processes, tampered with and refused.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const MARKER = 'a name that no raw file may show';
const DRIVER = process.argv[2];
// The beginning of command lines where an emulator runs all this.
const THROUGH = (process.env.PROVE_THROUGH || '').split(' ').filter(Boolean);

/** What `sql` gives in a database of this driver, by a secret or without: an array of rows. */
async function query(file, sql, secret) {
  const driver = require(DRIVER);
  const given = secret && await require('tdekit').connect(driver, file, secret);
  if (DRIVER === 'sqlite3') {
    const db = given || new driver.Database(file);
    return new Promise((resolve, reject) => {
      db.all(sql, (error, rows) => db.close(() => (error ? reject(error) : resolve(rows))));
    });
  }
  const Database = driver.DatabaseSync || driver;
  const db = given || new Database(file);
  try {
    const statement = db.prepare(sql);
    return sql.startsWith('SELECT') ? statement.all() : [statement.run()];
  } finally {
    db.close();
  }
}

async function child(load, sql) {
  if (load) await require('tdekit').load(require(DRIVER));
  const secret = JSON.parse(process.env.PROVE_SECRET || 'null');
  console.log(JSON.stringify(await query('app.db', sql, secret)));
}

function again(load, sql, variables = {}) {
  const words = [__filename, DRIVER, '--child', load ? 'load' : '', sql];
  const env = { ...process.env, ...variables };
  const ended = start([process.execPath, ...words], { env });
  const ok = ended.status === 0;
  return { ok, said: ok ? ended.stdout : ended.stderr };
}

function start(words, options = {}) {
  const [program, ...rest] = [...THROUGH, ...words];
  return spawnSync(program, rest, { encoding: 'utf8', timeout: 300000, ...options });
}

/** The command: what npm links, or the program itself, which an emulator has to start. */
function commandPath() {
  if (!THROUGH.length) return path.join(__dirname, 'node_modules', '.bin', 'tdekit');
  const name = `@tdekit/${process.platform}-${process.arch}-gnu/package.json`;
  return path.join(path.dirname(require.resolve(name)), 'bin', 'tdekit');
}

function expect(holds, what) {
  if (!holds) throw new Error(what);
}

function prove(home) {
  const command = commandPath();
  const run = (...words) => {
    const ended = start([command, ...words]);
    expect(ended.status === 0, `tdekit ${words.join(' ')}: ${ended.stderr}`);
  };
  run('--version');
  expect(start([command, 'no-such-verb']).status === 2, 'the exit code passes through');
  expect(again(false, 'CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT)').ok, 'create');
  const many = 'WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<500)';
  expect(again(false, `INSERT INTO t ${many} SELECT i, '${MARKER}' FROM c`).ok, 'insert');
  const file = path.join(home, 'app.db');
  expect(fs.readFileSync(file).includes(MARKER), 'the plain file shows the marker');
  run('key', 'init');
  run('cert', 'create', 'Proof');
  run('encrypt', file, '--certificate', 'Proof');
  expect(!fs.readFileSync(file).includes(MARKER), 'the encrypted file shows nothing');
  const count = 'SELECT count(*) AS n FROM t';
  const opened = again(true, count);
  expect(opened.ok && opened.said.trim() === '[{"n":500}]', `with tdekit: ${opened.said}`);
  const insert = again(true, `INSERT INTO t VALUES(501, '${MARKER}')`);
  expect(insert.ok && again(true, count).said.includes('501'), `a new row: ${insert.said}`);
  expect(!fs.readFileSync(file).includes(MARKER), 'nothing shows after the insert');
  const bare = again(false, count);
  expect(!bare.ok && bare.said.includes('not a database'), `without tdekit: ${bare.said}`);
  const wrong = again(true, count, { TDEKIT_PASSWORD: 'another one' });
  const reason = 'wrong password for the key store';
  expect(!wrong.ok && wrong.said.includes(reason), `with a wrong password: ${wrong.said}`);
  const noKey = again(true, count, { TDEKIT_PASSWORD: '' });
  expect(!noKey.ok && noKey.said.includes('authorization denied'), `no key: ${noKey.said}`);
  proveSecrets(home, count);
  const content = fs.readFileSync(file);
  // One bit of one byte of one page.
  content[content.length - 2000] ^= 1;
  fs.writeFileSync(file, content);
  const tampered = again(true, count);
  expect(!tampered.ok && !tampered.said.includes('501'), `tampered with: ${tampered.said}`);
  console.log(`npm packages: ok (${DRIVER})`);
}

/** Secrets of the program's own, in processes whose environment has none. */
function proveSecrets(home, count) {
  const by = (secret) => {
    const variables = { PROVE_SECRET: JSON.stringify(secret), TDEKIT_PASSWORD: '' };
    return again(false, count, variables);
  };
  const password = 'only for this proof';
  const passwordFile = path.join(home, 'password');
  fs.writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
  for (const secret of [{ password }, { passwordFile }]) {
    const opened = by(secret);
    expect(opened.ok && opened.said.trim() === '[{"n":501}]', `by a secret: ${opened.said}`);
  }
  fs.chmodSync(passwordFile, 0o644);
  for (const [secret, reason] of [
    [{ password: 'another one' }, 'tdekit: wrong password for the key store'],
    [{ passwordFile }, 'password has mode 0644: others could read it'],
    [{ password, passwordFile }, 'a password or a passwordFile'],
  ]) {
    const refused = by(secret);
    expect(!refused.ok && refused.said.includes(reason), `${reason}: ${refused.said}`);
  }
  fs.unlinkSync(passwordFile);
}

if (process.argv[3] === '--child') {
  child(process.argv[4] === 'load', process.argv[5]).catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
} else {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), 'tdekit-proof-'));
  for (const name of Object.keys(process.env)) {
    if (name.startsWith('TDEKIT_') || name === 'XDG_DATA_HOME') delete process.env[name];
  }
  Object.assign(process.env, { HOME: home, TDEKIT_PASSWORD: 'only for this proof' });
  process.chdir(home);
  try {
    prove(home);
  } catch (error) {
    console.error(`npm packages: ${error.message}`);
    process.exitCode = 1;
  } finally {
    fs.rmSync(home, { recursive: true });
  }
}
