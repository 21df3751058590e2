// Reads report pages in Chromium:
//   node check.js CHROMIUM SCREENSHOTS PAGE.html DOCUMENT.json [PAGE.html DOCUMENT.json ..]
// Pages are those of runs, of comparisons of two runs, and of calibrations.
// Screenshots are left in the directory SCREENSHOTS. Prints what is wrong, and ends with 1 then.
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { chromium } = require('playwright-core');
const axe = require('axe-core');

const inspect = require('./inspect.js');
const { at, mismatch, parse } = require('./numbers.js');

const FLAGS = [
  '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];
const DESK = { width: 1180, height: 900 };
/** A reader's usual window, of which a run takes few before its folds are opened. */
const WINDOW = { width: 1400, height: 900 };
const MOST_SCREENS = 6;
const MOST_SHEETS = 2;
const PHONE = { width: 360, height: 740 };
/** The page without the document that it carries. */
const MOST_BYTES = 500_000;
/** Reading all pages takes under a minute; a browser that hangs is ended with the program. */
const LONGEST_MS = 10 * 60_000;
const METRICS = {
  Elapsed: 'elapsed',
  CPU: 'cpu',
  'User CPU': 'user',
  'System CPU': 'system',
  Instructions: 'instructions',
};

const wrong = [];
let checks = 0;

function check(holds, what) {
  checks += 1;
  if (!holds) wrong.push(what);
}

/** Opens the page; whatever it says or asks for is wrong. */
async function open(browser, name, file, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const address = pathToFileURL(file).href;
  page.on('console', (said) => check(false, `${name}: console ${said.type()}: ${said.text()}`));
  page.on('pageerror', (error) => check(false, `${name}: ${error.message}`));
  page.on('request', (request) => {
    check(request.url() === address, `${name}: asks for ${request.url()}`);
  });
  await page.goto(address, { waitUntil: 'load' });
  return page;
}

/** Every number and name against the document, and that no number stands without its place. */
async function numbers(name, page, document) {
  const cells = await page.evaluate(inspect.cells);
  check(cells.length > 40, `${name}: only ${cells.length} numbers and names`);
  for (const cell of cells) {
    const found = mismatch(cell, document);
    check(!found, `${name}: ${found}`);
    const owner = /^((?:\w+\/)?)summary\/(?:comparisons|totals)\/\d+/.exec(cell.from);
    const about = owner ? at(document, owner[0]) : undefined;
    // A row that is named by an item of a list holds that item alone.
    const item = cell.row && /^(changes|rows)\/\d+\//.exec(cell.row);
    if (item) {
      const own = cell.from.startsWith(item[0]) || !/^(changes|rows)\//.test(cell.from);
      check(own, `${name}: ${cell.from} stands in the row of ${cell.row}`);
    }
    if (about && cell.row && /^(classes|\w+\/cells)\/\d+\//.test(cell.row)) {
      const id = at(document, cell.row.replace(/\/label$/, '/id'));
      check(about.class === id, `${name}: ${cell.from} stands in the row of ${id}`);
    }
    if (about && about.metric && METRICS[cell.column]) {
      check(about.metric === METRICS[cell.column],
        `${name}: ${cell.from} stands in the column ${cell.column}`);
    }
  }
  for (const text of await page.evaluate(inspect.loose)) {
    check(false, `${name}: "${text}" does not tell where it comes from`);
  }
  return cells;
}

/** Each plot's numbers stand in the tables too, and its marks lie where the numbers say. */
async function plots(name, page, cells) {
  const known = new Set(cells.filter((cell) => cell.as === 'overhead').map((cell) => cell.text));
  for (const [index, plot] of (await page.evaluate(inspect.forests)).entries()) {
    const where = `${name}: plot ${index + 1}`;
    check(plot.ticks.length >= 2, `${where}: too few marks on its axis`);
    const log = (text) => Math.log(1 + parse(text).value / 100);
    const ticks = plot.ticks.map((tick) => ({ log: log(tick.text), x: tick.x }));
    const [first, last] = [
      ticks.reduce((a, b) => (a.x < b.x ? a : b)), ticks.reduce((a, b) => (a.x > b.x ? a : b)),
    ];
    const slope = (last.x - first.x) / (last.log - first.log);
    for (const { numbers: texts, marks } of Object.values(plot.series)) {
      check(texts.length === marks.length,
        `${where}: ${marks.length} marks, ${texts.length} numbers`);
      for (const [row, text] of texts.entries()) {
        check(known.has(text), `${where}: ${text} stands in no table`);
        const { value, half } = parse(text);
        const place = (percent) => first.x + slope * (Math.log(1 + percent / 100) - first.log);
        const slack = Math.abs(place(value + half) - place(value - half)) / 2 + 6;
        check(Math.abs(marks[row] - place(value)) <= slack,
          `${where}: the mark of ${text} lies at ${marks[row]}, not ${place(value)}`);
      }
    }
    for (const interval of plot.intervals.filter((text) => text !== 'too wide to tell')) {
      for (const end of interval.split(' to ')) {
        check(known.has(end), `${where}: ${end} stands in no table`);
      }
    }
  }
}

/** The plots of many runs show as many intervals as the document counts. */
async function intervals(name, page, document) {
  for (const plot of await page.evaluate(inspect.bands)) {
    const row = at(document, plot.counted);
    const shown = plot.hold + plot.miss;
    check(shown === Math.min(row.runs, 200), `${name}: ${shown} intervals of ${row.runs} runs`);
    check(row.runs > 200 || plot.hold === row.held,
      `${name}: ${plot.hold} intervals hold the truth, not ${row.held}`);
  }
}

/** axe's rules, and the inks that it does not look at. */
async function accessible(name, page) {
  await page.evaluate(axe.source);
  await page.evaluate(inspect.unfold, true);
  const found = await page.evaluate(() => globalThis.axe.run(document, {
    resultTypes: ['violations'],
  }));
  for (const violation of found.violations) {
    const nodes = violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 120));
    check(false, `${name}: ${violation.id}: ${violation.help}: ${nodes.join(' | ')}`);
  }
  const { paper, found: inks } = await page.evaluate(inspect.inks);
  for (const [ink, contrast] of Object.entries(inks)) {
    check(contrast >= 4.5, `${name}: ink ${ink} has contrast ${contrast.toFixed(2)}`);
  }
  await page.evaluate(inspect.unfold, false);
  checks += 1;
  return paper;
}

async function narrow(name, page) {
  await page.evaluate(inspect.unfold, true);
  const found = await page.evaluate(inspect.measures);
  await page.evaluate(inspect.unfold, false);
  check(found.scroll <= found.width, `${name}: ${found.scroll} px wide, the screen ${found.width}`);
  check(found.wide.length === 0, `${name}: reaches out of the screen: ${found.wide.join('; ')}`);
  const small = found.letters !== undefined && found.letters < 10;
  check(!small, `${name}: letters of ${found.letters} px in a chart`);
}

async function printed(name, page, wanted) {
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  const found = await page.evaluate(inspect.hidden);
  assert.deepStrictEqual(found.sections, wanted.sections);
  check(found.empty.length === 0, `${name}: empty sections ${found.empty}`);
  check(found.missing.length === 0, `${name}: not printed: ${found.missing}`);
  check(found.charts >= wanted.charts, `${name}: ${found.charts} charts of ${wanted.charts}`);
  const { paper } = await page.evaluate(inspect.inks);
  check(paper > 0.8, `${name}: paper of luminance ${paper}`);
  const { letters } = await page.evaluate(inspect.measures);
  check(letters === undefined || letters >= 7, `${name}: letters of ${letters} px in a chart`);
  await page.evaluate(inspect.unfold, true);
  const opened = await page.evaluate(inspect.hidden);
  check(opened.missing.length === 0, `${name}: opened, but not printed: ${opened.missing}`);
  await page.evaluate(inspect.unfold, false);
  return page.pdf({ format: 'A4', printBackground: true });
}

/** A run is seen at one look: few screens before its folds are opened, and few sheets of paper. */
async function short(browser, name, file, sheets) {
  const page = await open(browser, name, file, { viewport: WINDOW });
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  await page.context().close();
  check(height <= MOST_SCREENS * WINDOW.height, `${name}: ${height} px high`);
  const count = sheets.toString('latin1').match(/\/Type\s*\/Page\b/g)?.length;
  check(count >= 1 && count <= MOST_SHEETS, `${name}: ${count} sheets of paper`);
}

async function report(browser, shots, file, results) {
  const name = path.basename(file, '.html');
  const shot = (page, kind) => (
    page.screenshot({ path: path.join(shots, `${name}-${kind}.png`), fullPage: true }));
  const document = JSON.parse(fs.readFileSync(results, 'utf8'));

  const light = await open(browser, name, file, { viewport: DESK, colorScheme: 'light' });
  const carried = await light.evaluate(inspect.embedded);
  check(fs.statSync(file).size - carried.length <= MOST_BYTES, `${name}: too large`);
  try {
    assert.deepStrictEqual(JSON.parse(carried), document);
  } catch (error) {
    check(false, `${name}: carries another document: ${error.message}`);
  }
  await plots(name, light, await numbers(name, light, document));
  await intervals(name, light, document);
  const bright = await accessible(`${name}, light`, light);
  const seen = await light.evaluate(inspect.hidden);
  const picture = await shot(light, 'light');
  const sheets = await printed(`${name}, print`, light, seen);
  fs.writeFileSync(path.join(shots, `${name}.pdf`), sheets);
  if (document.schema.startsWith('tdekit-bench/')) await short(browser, name, file, sheets);
  await light.context().close();

  const dark = await open(browser, name, file, { viewport: DESK, colorScheme: 'dark' });
  const dim = await accessible(`${name}, dark`, dark);
  check(bright > 0.8 && dim < 0.1, `${name}: paper of luminance ${bright} and ${dim}`);
  await shot(dark, 'dark');
  await dark.context().close();

  for (const colorScheme of ['light', 'dark']) {
    const options = { viewport: PHONE, colorScheme, deviceScaleFactor: 2, isMobile: true };
    const phone = await open(browser, name, file, options);
    await narrow(`${name}, phone`, phone);
    await accessible(`${name}, phone, ${colorScheme}`, phone);
    await shot(phone, `phone-${colorScheme}`);
    await phone.context().close();
  }

  const options = { viewport: DESK, colorScheme: 'light', javaScriptEnabled: false };
  const still = await open(browser, name, file, options);
  check(picture.equals(await shot(still, 'no-script')), `${name}: looks different without scripts`);
  await still.context().close();
}

async function main([executablePath, shots, ...files]) {
  assert(files.length >= 2 && files.length % 2 === 0, 'pages come with their documents');
  fs.mkdirSync(shots, { recursive: true });
  const options = { executablePath, headless: true, chromiumSandbox: false, args: FLAGS };
  const browser = await chromium.launch(options);
  try {
    for (let index = 0; index < files.length; index += 2) {
      await report(browser, shots, files[index], files[index + 1]);
    }
  } finally {
    await browser.close();
  }
  for (const what of wrong.slice(0, 40)) console.log(`wrong: ${what}`);
  console.log(`${files.length / 2} pages, ${checks} checks, ${wrong.length} wrong`);
  process.exitCode = wrong.length ? 1 : 0;
}

setTimeout(() => {
  console.error(`not done after ${LONGEST_MS / 60_000} minutes`);
  process.exit(1);
}, LONGEST_MS).unref();

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
