'use strict';
// Opens databases that tdekit encrypted, with the stock SQLite drivers of Node.js.
//
// load(require('better-sqlite3')), load(require('node:sqlite')) or await load(require('sqlite3'))
// once, before the first encrypted database is opened. Every later connection of that driver opens
// plain and encrypted databases alike: a VFS belongs to the process and its SQLite library.
// connect(driver, 'app.db', { password }) opens one by a password that no environment names.

const { execFileSync } = require('node:child_process');
const path = require('node:path');

/** The package with this platform's programs, as npm names it; '' where there is none. */
function platformPackage() {
  const report = process.report ? process.report.getReport() : { header: {} };
  const glibc = Boolean(report.header.glibcVersionRuntime);
  return process.platform === 'linux' && glibc ? `@tdekit/linux-${process.arch}-gnu` : '';
}

/** The directory of the platform's package, or undefined where it is not installed. */
function platformDirectory() {
  const name = platformPackage();
  if (!name) return undefined;
  try {
    return path.dirname(require.resolve(`${name}/package.json`));
  } catch (error) {
    if (error.code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

/**
 * The extension's path: TDEKIT_EXTENSION, the one of the platform's package, or what
 * `tdekit sqlite path` prints.
 */
function loadablePath() {
  if (process.env.TDEKIT_EXTENSION) return process.env.TDEKIT_EXTENSION;
  const directory = platformDirectory();
  if (directory) return path.join(directory, 'lib', 'tdekit', 'libtdekit_sqlite.so');
  try {
    const found = execFileSync('tdekit', ['sqlite', 'path'], { encoding: 'utf8' });
    return found.trim();
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    const wanted = platformPackage() || `a package for ${process.platform} ${process.arch}`;
    throw new Error(`tdekit: neither ${wanted} nor the command tdekit is installed`);
  }
}

const loaded = new WeakSet();

/**
 * Registers tdekit with a driver: the class of better-sqlite3, the module or class of node:sqlite,
 * or the module sqlite3, for which it returns a promise.
 */
function load(driver, extension = loadablePath()) {
  const { Synchronous, Asynchronous } = classOf(driver);
  if (Asynchronous) {
    return loadLater(Asynchronous, extension).then(() => { loaded.add(driver); });
  }
  const options = Synchronous.name === 'DatabaseSync' ? { allowExtension: true } : {};
  loadInto(new Synchronous(':memory:', options), extension);
  loaded.add(driver);
  return undefined;
}

/**
 * Opens a database by a secret of its own, for this connection alone: { password } or
 * { passwordFile }. `rest` are the driver's further arguments. With sqlite3 it returns a promise of
 * the database. Throws with the reason, such as a wrong password.
 */
function connect(driver, file, secret, ...rest) {
  const given = secretOf(secret);
  const { Synchronous, Asynchronous } = classOf(driver);
  if (Asynchronous) return connectLater(driver, Asynchronous, file, given, rest);
  if (!loaded.has(driver)) load(driver);
  // What this connection holds lasts until it closes.
  const holder = new Synchronous(':memory:');
  try {
    holder.prepare(UNLOCK).get(file, ...given);
    return new Synchronous(file, ...rest);
  } finally {
    holder.close();
  }
}

const UNLOCK = 'SELECT tdekit_unlock(?, ?, ?)';

function secretOf({ password, passwordFile } = {}) {
  if ((password === undefined) === (passwordFile === undefined)) {
    throw new TypeError('tdekit: connect() takes a password or a passwordFile');
  }
  return password === undefined ? ['password_file', passwordFile] : ['password', password];
}

async function connectLater(driver, Database, file, given, rest) {
  if (!loaded.has(driver)) await load(driver);
  const holder = await opened(Database, ':memory:', []);
  try {
    await called((done) => holder.get(UNLOCK, [file, ...given], done));
    return await opened(Database, file, rest);
  } finally {
    await called((done) => holder.close(done));
  }
}

/** The class of a driver whose calls return at once, or of one whose calls take a callback. */
function classOf(driver) {
  const Synchronous = driver.DatabaseSync
    || (driver.name === 'DatabaseSync' ? driver : undefined);
  if (Synchronous) return { Synchronous };
  if (typeof driver === 'function' && driver.prototype && driver.prototype.loadExtension) {
    return { Synchronous: driver };
  }
  if (driver.Database && driver.OPEN_READWRITE) return { Asynchronous: driver.Database };
  throw new TypeError('tdekit: the driver must be better-sqlite3, node:sqlite or sqlite3');
}

function loadInto(connection, extension) {
  try {
    connection.loadExtension(extension);
  } finally {
    connection.close();
  }
  return undefined;
}

async function loadLater(Database, extension) {
  const connection = await opened(Database, ':memory:', []);
  try {
    await called((done) => connection.loadExtension(extension, done));
  } finally {
    await called((done) => connection.close(done));
  }
}

/** A promise of a new connection. */
function opened(Database, file, rest) {
  return new Promise((resolve, reject) => {
    const connection = new Database(file, ...rest, (error) => (
      error ? reject(error) : resolve(connection)));
  });
}

/** A promise of what `call` gives to its callback. */
function called(call) {
  return new Promise((resolve, reject) => {
    call((error, value) => (error ? reject(error) : resolve(value)));
  });
}

module.exports = { loadablePath, load, connect };
