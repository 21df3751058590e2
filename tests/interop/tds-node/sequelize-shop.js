// Sequelize: `sync` of one set of models twice, then of another set with `alter`.
'use strict';

const assert = require('node:assert');
const { DataTypes, Sequelize } = require('sequelize');
const { ForeignKeyConstraintError, UniqueConstraintError } = require('sequelize');
const { TEXT } = require('./types.js');

const COUNT = 50;

function first(db) {
  const Owner = db.define('SqOwner', { name: { type: DataTypes.STRING(50), unique: true } });
  const Item = db.define(
    'SqItem',
    {
      title: { type: DataTypes.STRING(50), allowNull: false },
      code: { type: DataTypes.STRING(10) },
      price: DataTypes.DECIMAL(9, 2),
      stock: { type: DataTypes.INTEGER, allowNull: false },
      active: { type: DataTypes.BOOLEAN, defaultValue: true },
      added: DataTypes.DATE,
      key: { type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4 },
    },
    { indexes: [{ fields: ['added'] }, { unique: true, fields: ['key'] }] },
  );
  Owner.hasMany(Item, { foreignKey: 'ownerId' });
  Item.belongsTo(Owner, { foreignKey: 'ownerId' });
  return { Owner, Item };
}

function second(db) {
  const Owner = db.define('SqOwner', { name: DataTypes.STRING(200), mail: DataTypes.STRING });
  const Label = db.define('SqLabel', { text: DataTypes.TEXT }, { timestamps: false });
  const Item = db.define(
    'SqItem',
    {
      title: { type: DataTypes.STRING(200), allowNull: true },
      code: { type: DataTypes.STRING(20) },
      price: { type: DataTypes.DECIMAL(19, 4), allowNull: false },
      stock: { type: DataTypes.BIGINT, allowNull: false },
      note: DataTypes.TEXT,
      added: DataTypes.DATE,
      key: { type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4 },
    },
    { indexes: [{ fields: ['added'] }, { fields: ['code', 'price'] }] },
  );
  Owner.hasMany(Item, { foreignKey: 'ownerId' });
  Item.belongsTo(Owner, { foreignKey: 'ownerId' });
  Item.belongsToMany(Label, { through: 'SqItemLabel' });
  Label.belongsToMany(Item, { through: 'SqItemLabel' });
  return { Owner, Item, Label };
}

const title = (number, marker) => `${TEXT} ${number} ${marker}`.slice(0, 50);

async function fill({ Owner, Item }, marker) {
  const owner = await Owner.create({ name: TEXT });
  const rows = Array.from({ length: COUNT }, (_, number) => ({
    title: title(number, marker),
    code: `c${number}`,
    price: number / 4,
    stock: number,
    added: new Date(Date.UTC(2024, 1, 29, number % 24)),
    ownerId: number % 2 ? owner.id : null,
  }));
  await Item.bulkCreate(rows);
}

async function check(db, { Owner, Item, Label }, marker) {
  const columns = await db.getQueryInterface().describeTable('SqItems');
  const facts = ({ type, allowNull }) => [type, allowNull];
  assert.deepStrictEqual(facts(columns.title), ['NVARCHAR(200)', true]);
  assert.deepStrictEqual(facts(columns.stock), ['BIGINT', false]);
  assert.deepStrictEqual(facts(columns.price), ['DECIMAL', false]);
  assert.strictEqual(columns.active, undefined);
  const items = await Item.findAll({ include: Owner, order: ['id'] });
  assert.strictEqual(items.length, COUNT);
  items.forEach((item, number) => {
    assert.deepStrictEqual([item.title, item.code], [title(number, marker), `c${number}`]);
    assert.deepStrictEqual([Number(item.price), Number(item.stock)], [number / 4, number]);
    assert.strictEqual(item.added.getUTCHours(), number % 24);
    assert.strictEqual(item.SqOwner?.name ?? null, number % 2 ? TEXT : null);
  });
  const label = await Label.create({ text: TEXT });
  await label.addSqItems(items.slice(0, 3));
  assert.strictEqual(await items[1].countSqLabels(), 1);
  const fresh = await Item.create({ price: 2, stock: 5 });
  await assert.rejects(fresh.update({ ownerId: 99 }), ForeignKeyConstraintError);
  const twice = { SqItemId: items[0].id, SqLabelId: label.id };
  await assert.rejects(db.models.SqItemLabel.create(twice), UniqueConstraintError);
  const page = { where: { code: 'c7' }, limit: 5, offset: 0 };
  const { rows, count } = await Item.findAndCountAll(page);
  assert.deepStrictEqual([rows[0].id, count], [items[7].id, 1]);
}

function connect({ host, port, user, password, database, options }) {
  const dialectOptions = { options };
  const more = { dialect: 'mssql', host, port, logging: false, dialectOptions };
  return new Sequelize(database, user, password, more);
}

module.exports = async function run(server, marker) {
  const before = connect(server);
  const models = first(before);
  await before.sync();
  await fill(models, marker);
  await before.sync({ force: true });
  await before.sync();
  assert.strictEqual(await models.Item.count(), 0);
  await fill(models, marker);
  await before.close();
  const after = connect(server);
  const changed = second(after);
  await after.sync({ alter: true });
  await check(after, changed, marker);
  await after.sync({ alter: true });
  await after.sync({ force: true });
  await after.drop();
  const tables = await after.getQueryInterface().showAllTables();
  assert.deepStrictEqual(tables.filter(({ tableName }) => tableName.startsWith('Sq')), []);
  await after.close();
};
