'use strict';
// Opens databases that tdekit encrypted, with the stock SQLite drivers of Node.js.
//
// load(require('better-sqlite3')), load(require('node:sqlite')) or await load(require('sqlite3'))
// once, before the first encrypted database is opened. Every later connection of that driver opens
// plain and encrypted databases alike: a VFS belongs to the process and its SQLite library.

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

/**
 * Registers tdekit with a driver: the class of better-sqlite3, the module or class of node:sqlite,
 * or the module sqlite3, for which it returns a promise.
 */
function load(driver, extension = loadablePath()) {
  const Synchronous = driver.DatabaseSync
    || (driver.name === 'DatabaseSync' ? driver : undefined);
  if (Synchronous) {
    return loadInto(new Synchronous(':memory:', { allowExtension: true }), extension);
  }
  if (typeof driver === 'function' && driver.prototype && driver.prototype.loadExtension) {
    return loadInto(new driver(':memory:'), extension);
  }
  if (driver.Database && driver.OPEN_READWRITE) return loadLater(driver.Database, extension);
  throw new TypeError('tdekit: load() takes better-sqlite3, node:sqlite or sqlite3');
}

function loadInto(connection, extension) {
  try {
    connection.loadExtension(extension);
  } finally {
    connection.close();
  }
  return undefined;
}

function loadLater(Database, extension) {
  return new Promise((resolve, reject) => {
    const connection = new Database(':memory:', (opened) => {
      if (opened) return reject(opened);
      return connection.loadExtension(extension, (failed) => {
        connection.close((unclosed) => (failed || unclosed ? reject(failed || unclosed)
          : resolve()));
      });
    });
  });
}

module.exports = { loadablePath, load };
