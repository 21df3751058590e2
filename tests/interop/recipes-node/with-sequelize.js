'use strict';
// Sequelize over sqlite3 (node-sqlite3), which has a SQLite of its own: loaded in that one.

const { DataTypes } = require('sequelize');

// recipe
const { Sequelize } = require('sequelize');
const sqlite3 = require('sqlite3');
const tdekit = require('./tdekit');

async function open(storage) {
  await tdekit.load(sqlite3);
  return new Sequelize({ dialect: 'sqlite', storage, logging: false });
}
// end

async function table(file) {
  const db = await open(file);
  const columns = {
    id: { type: DataTypes.INTEGER, primaryKey: true },
    body: { type: DataTypes.TEXT, allowNull: false },
  };
  return { db, Note: db.define('note', columns, { tableName: 'note', timestamps: false }) };
}

async function write(file, rows) {
  const { db, Note } = await table(file);
  await db.sync();
  await db.transaction((transaction) => Note.bulkCreate(rows, { transaction }));
  await db.close();
}

async function read(file) {
  const { db, Note } = await table(file);
  const rows = await Note.findAll({ raw: true });
  await db.close();
  return rows;
}

module.exports = { read, write };
