// TypeORM: `synchronize` of one set of entities twice, then of another set twice. It drops a column
// whose type or length changes and adds it again, so that is done to a table without rows.
'use strict';

const assert = require('node:assert');
const { DataSource, EntitySchema, QueryFailedError } = require('typeorm');
const { TEXT } = require('./types.js');

const COUNT = 50;
const id = { type: 'int', primary: true, generated: true };

const first = () => [
  new EntitySchema({
    name: 'TyOwner',
    columns: { id, name: { type: 'nvarchar', length: 50, unique: true } },
  }),
  new EntitySchema({
    name: 'TyDetail',
    columns: { id, text: { type: 'nvarchar', length: 50 }, rank: { type: 'int' } },
  }),
  new EntitySchema({
    name: 'TyItem',
    columns: {
      id,
      title: { type: 'nvarchar', length: 50 },
      code: { type: 'varchar', length: 10, nullable: true },
      price: { type: 'decimal', precision: 9, scale: 2, nullable: true },
      stock: { type: 'int', default: 0 },
      added: { type: 'datetime2', createDate: true },
      key: { type: 'uniqueidentifier', generated: 'uuid' },
      active: { type: 'bit', default: true },
    },
    relations: { owner: { type: 'many-to-one', target: 'TyOwner', nullable: true } },
    indices: [{ columns: ['title', 'stock'] }],
    checks: [{ expression: '"stock" >= 0' }],
  }),
];

const second = () => [
  new EntitySchema({
    name: 'TyOwner',
    columns: {
      id,
      name: { type: 'nvarchar', length: 50 },
      mail: { type: 'varchar', length: 100, nullable: true, unique: true },
    },
  }),
  new EntitySchema({
    name: 'TyItem',
    columns: {
      id,
      title: { type: 'nvarchar', length: 50, nullable: true },
      code: { type: 'varchar', length: 10, nullable: true },
      price: { type: 'decimal', precision: 9, scale: 2, default: 2 },
      stock: { type: 'int', default: 5 },
      added: { type: 'datetime2', createDate: true },
      changed: { type: 'datetime2', updateDate: true },
      key: { type: 'uniqueidentifier', generated: 'uuid' },
      note: { type: 'nvarchar', length: 'MAX', nullable: true },
    },
    relations: {
      owner: { type: 'many-to-one', target: 'TyOwner', nullable: true, onDelete: 'CASCADE' },
      detail: { type: 'one-to-one', target: 'TyDetail', joinColumn: true, nullable: true },
      labels: { type: 'many-to-many', target: 'TyLabel', joinTable: true },
    },
    indices: [
      { columns: ['title', 'price'] },
      { columns: ['code'], unique: true, where: '"code" IS NOT NULL' },
    ],
    checks: [{ expression: '"price" >= 0' }],
  }),
  new EntitySchema({
    name: 'TyDetail',
    columns: {
      id,
      text: { type: 'nvarchar', length: 'MAX' },
      rank: { type: 'bigint', default: 7 },
    },
  }),
  new EntitySchema({
    name: 'TyLabel',
    columns: { id, text: { type: 'nvarchar' }, version: { type: 'int', version: true } },
  }),
];

const title = (number, marker) => `${TEXT} ${number} ${marker}`.slice(0, 50);

async function synchronize(server, entities, work) {
  const { user, ...rest } = server;
  const source = new DataSource({ type: 'mssql', username: user, ...rest, entities });
  await source.initialize();
  try {
    await source.synchronize();
    const { upQueries } = await source.driver.createSchemaBuilder().log();
    assert.deepStrictEqual(upQueries.map(({ query }) => query), [], 'a second run is empty');
    await source.synchronize();
    await work(source);
  } finally {
    await source.destroy();
  }
}

async function fill(source, marker) {
  const owner = await source.getRepository('TyOwner').save({ name: TEXT });
  const rows = Array.from({ length: COUNT }, (_, number) => ({
    title: title(number, marker),
    code: `c${number}`,
    price: number / 4,
    stock: number,
    owner: number % 2 ? owner : null,
  }));
  await source.getRepository('TyItem').save(rows);
}

async function check(source, marker) {
  const items = source.getRepository('TyItem');
  const relations = { owner: true, labels: true };
  const found = await items.find({ relations, order: { id: 'ASC' } });
  assert.strictEqual(found.length, COUNT);
  const details = source.getRepository('TyDetail');
  const label = await source.getRepository('TyLabel').save({ text: TEXT });
  assert.strictEqual(label.version, 1);
  const kept = await columns(source);
  assert.deepStrictEqual(kept.title, ['nvarchar', 50, 'YES']);
  assert.deepStrictEqual(kept.price, ['decimal', null, 'NO']);
  assert.strictEqual(kept.active, undefined);
  found.forEach((item, number) => {
    assert.deepStrictEqual([item.title, item.code], [title(number, marker), `c${number}`]);
    assert.deepStrictEqual([item.price, item.stock], [number / 4, number]);
    assert.strictEqual(item.owner?.name, number % 2 ? TEXT : undefined);
  });
  for (const item of found) {
    item.detail = await details.save({ text: `${TEXT} ${item.id}` });
    item.labels = [label];
  }
  await items.save(found);
  const wanted = { where: { code: 'c7' }, relations: { ...relations, detail: true } };
  const one = await items.findOne(wanted);
  assert.deepStrictEqual([one.labels[0].text, one.owner.name], [TEXT, TEXT]);
  assert.strictEqual(one.detail.text, `${TEXT} ${one.id}`);
  await assert.rejects(items.update(one.id, { code: 'c8' }), QueryFailedError);
  await assert.rejects(items.update(one.id, { price: -1 }), QueryFailedError);
  const [page, count] = await items.findAndCount({ take: 10, skip: 5, order: { id: 'ASC' } });
  assert.deepStrictEqual([page.length, count], [10, COUNT]);
  await source.dropDatabase();
  assert.deepStrictEqual(await columns(source), {});
}

async function columns(source) {
  const sql = "SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, IS_NULLABLE FROM"
    + " INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME LIKE 'ty[_]item'";
  const rows = await source.query(sql);
  const facts = (row) => [row.DATA_TYPE, row.CHARACTER_MAXIMUM_LENGTH, row.IS_NULLABLE];
  return Object.fromEntries(rows.map((row) => [row.COLUMN_NAME, facts(row)]));
}

module.exports = async function run(server, marker) {
  await synchronize(server, first(), (source) => fill(source, marker));
  await synchronize(server, second(), (source) => check(source, marker));
};
