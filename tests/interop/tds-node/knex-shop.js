// Knex: two batches of migrations, the second undone and done again.
'use strict';

const assert = require('node:assert');
const knex = require('knex');
const { TEXT } = require('./types.js');

const first = {
  async up(db) {
    await db.schema.createTable('kn_owner', (table) => {
      table.increments('id');
      table.string('name', 50).notNullable().unique();
      table.timestamps(true, true);
    });
    await db.schema.createTable('kn_product', (table) => {
      table.increments('id');
      table.string('name', 50).notNullable();
      table.string('code', 10).index();
      table.decimal('price', 9, 2).defaultTo(1.5);
      table.integer('stock').notNullable().defaultTo(0);
      table.boolean('active').notNullable().defaultTo(true);
      table.json('extra');
      table.uuid('key').defaultTo(db.fn.uuid());
      table.integer('owner_id').unsigned().references('id').inTable('kn_owner').onDelete('CASCADE');
    });
  },
  async down(db) {
    await db.schema.dropTable('kn_product');
    await db.schema.dropTableIfExists('kn_owner');
  },
};

const second = {
  async up(db) {
    await db.schema.alterTable('kn_product', (table) => {
      table.string('name', 200).nullable().alter();
      table.decimal('price', 19, 4).notNullable().defaultTo(2).alter();
      table.renameColumn('stock', 'in_stock');
      table.dropIndex('code');
      table.unique('code');
      table.datetime('added').defaultTo(db.fn.now());
      table.integer('parent_id').references('kn_product.id');
      table.index(['name', 'price'], 'kn_product_name');
      table.check('price >= 0', null, 'kn_product_price');
    });
    await db.schema.alterTable('kn_product', (table) => {
      table.dropForeign('owner_id');
      table.dropColumn('active');
    });
    await db.schema.renameTable('kn_product', 'kn_item');
    await db.schema.alterTable('kn_item', (table) => {
      table.foreign('owner_id').references('id').inTable('kn_owner').onDelete('SET NULL');
    });
  },
  async down(db) {
    await db.schema.alterTable('kn_item', (table) => table.dropForeign('owner_id'));
    await db.schema.renameTable('kn_item', 'kn_product');
    await db.schema.alterTable('kn_product', (table) => {
      table.dropChecks(['kn_product_price']);
      table.dropIndex(['name', 'price'], 'kn_product_name');
      table.dropForeign('parent_id');
      table.dropColumns('added', 'parent_id');
      table.dropUnique('code');
      table.index('code');
      table.renameColumn('in_stock', 'stock');
    });
    await db.schema.alterTable('kn_product', (table) => {
      table.boolean('active').notNullable().defaultTo(true);
      table.decimal('price', 9, 2).nullable().defaultTo(1.5).alter();
      table.string('name', 50).notNullable().alter();
      table.foreign('owner_id').references('id').inTable('kn_owner').onDelete('CASCADE');
    });
  },
};

// Migrations from memory, as from files.
const source = (migrations) => ({
  getMigrations: async () => Object.keys(migrations),
  getMigrationName: (name) => name,
  getMigration: async (name) => migrations[name],
});

const COUNT = 50;

const product = (number, marker) => ({
  name: `${TEXT} ${number} ${marker}`.slice(0, 50),
  code: `c${number}`,
  price: number / 4,
  stock: number,
  extra: JSON.stringify({ number }),
  owner_id: number % 2 ? 1 : null,
});

async function kept(db, table, stock, marker) {
  const rows = await db(table).orderBy('id');
  assert.strictEqual(rows.length, COUNT);
  rows.forEach((row, number) => {
    const { name, code, price, owner_id: owner } = product(number, marker);
    assert.deepStrictEqual([row.name, row.code, row[stock]], [name, code, number]);
    assert.deepStrictEqual([row.price, row.owner_id], [price, owner]);
    assert.match(row.key, /^[0-9A-F-]{36}$/);
  });
}

async function refused(change, number) {
  await assert.rejects(change, (error) => error.number === number);
}

module.exports = async function run({ host, ...rest }, marker) {
  const db = knex({ client: 'mssql', connection: { server: host, ...rest } });
  const before = { migrationSource: source({ first }) };
  const both = { migrationSource: source({ first, second }) };
  try {
    assert.deepStrictEqual(await db.migrate.latest(before), [1, ['first']]);
    assert.deepStrictEqual(await db.migrate.latest(before), [1, []]);
    await db('kn_owner').insert({ name: TEXT });
    const rows = Array.from({ length: COUNT }, (_, number) => product(number, marker));
    await db.batchInsert('kn_product', rows, 20);
    assert.deepStrictEqual(await db.migrate.latest(both), [2, ['second']]);
    assert.deepStrictEqual(await db.migrate.latest(both), [2, []]);
    await check(db, marker);
    assert.deepStrictEqual(await db.migrate.rollback(both), [2, ['second']]);
    await kept(db, 'kn_product', 'stock', marker);
    assert.deepStrictEqual(await db.migrate.latest(both), [2, ['second']]);
    await kept(db, 'kn_item', 'in_stock', marker);
    await db.migrate.rollback(both, true);
    assert.strictEqual(await db.schema.hasTable('kn_owner'), false);
  } finally {
    await db.destroy();
  }
};

async function check(db, marker) {
  assert.strictEqual(await db.schema.hasTable('kn_product'), false);
  assert.strictEqual(await db.schema.hasColumn('kn_item', 'in_stock'), true);
  const columns = await db('kn_item').columnInfo();
  const facts = ({ type, maxLength, nullable }) => [type, maxLength, nullable];
  assert.deepStrictEqual(facts(columns.name), ['nvarchar', 200, true]);
  assert.deepStrictEqual(facts(columns.price), ['decimal', null, false]);
  assert.strictEqual(columns.active, undefined);
  await kept(db, 'kn_item', 'in_stock', marker);
  const made = await db('kn_item').insert([{ code: null }, { code: null }]).returning('price');
  assert.deepStrictEqual(made.map(({ price }) => price), [2, 2]);
  await refused(db('kn_item').insert({ code: 'c1' }), 2601);
  await refused(db('kn_item').where('code', 'c1').update({ price: -1 }), 547);
  await refused(db('kn_item').where('code', 'c1').update({ owner_id: 9 }), 547);
  assert.strictEqual(await db('kn_item').whereNull('code').delete(), 2);
}
