'use strict';
// Opens databases that tdekit encrypted, with the stock better-sqlite3.
//
// require('./tdekit').load(require('better-sqlite3')) once, before the first encrypted database
// is opened. Every later `new Database(path)` opens plain and encrypted databases alike.

const { execFileSync } = require('node:child_process');

/** The extension's path: TDEKIT_EXTENSION, or what `tdekit sqlite path` prints. */
function extensionPath() {
  return process.env.TDEKIT_EXTENSION
    || execFileSync('tdekit', ['sqlite', 'path'], { encoding: 'utf8' }).trim();
}

/** Registers tdekit in this process. A VFS belongs to the process: one time is enough. */
function load(Database, path = extensionPath()) {
  const connection = new Database(':memory:');
  try {
    connection.loadExtension(path);
  } finally {
    connection.close();
  }
}

module.exports = { extensionPath, load };
