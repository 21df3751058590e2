'use strict';
// Uses a database through one tool, as docs/recipes.md describes; see tests/interop/README.md.
//
// `recipes.js TOOL write|read DATABASE`: makes the table by the tool's own means and writes the
// rows, or prints their number and sum. The program loads nothing of tdekit: the recipes do.

const assert = require('node:assert/strict');

const MARKER = process.env.INTEROP_MARKER;
const row = (id) => ({ id, body: `note ${id} ${MARKER}` });
const ROWS = Array.from({ length: 100 }, (_, i) => row(i + 1));
const TOOLS = ['drizzle', 'knex', 'typeorm', 'prisma-adapter', 'sequelize'];

async function main([tool, work, path]) {
  assert.ok(MARKER, 'INTEROP_MARKER is not set');
  assert.ok(TOOLS.includes(tool), `no recipe ${tool}`);
  const recipe = require(`./with-${tool}.js`);
  if (work === 'write') return recipe.write(path, ROWS);
  const found = (await recipe.read(path)).map(({ id, body }) => ({ id, body }));
  found.sort((a, b) => a.id - b.id);
  assert.deepEqual(found, ROWS);
  console.log(found.length, found.reduce((sum, each) => sum + each.id, 0));
  return undefined;
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
