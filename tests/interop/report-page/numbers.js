// Reads the numbers of a page back and holds each against the JSON document.
'use strict';

const UNITS = {
  nanoseconds: { ns: 1, us: 1e3, ms: 1e6, s: 1e9 },
  bytes: { B: 1, kB: 1e3, MB: 1e6, GB: 1e9 },
};

/** The value at a JSON pointer that lacks its first slash. */
function at(document, pointer) {
  let value = document;
  for (const part of pointer.split('/')) {
    if (value === null || typeof value !== 'object' || !(part in value)) {
      throw new Error(`the document has no ${pointer}`);
    }
    value = value[part];
  }
  return value;
}

/** A shown number: its value in the unit shown, and half of what its last digit counts. */
function parse(text) {
  const found = /^([+-]?)x?([\d,]+)(?:\.(\d+))?(?:\s?(%|ns|us|ms|s|B|kB|MB|GB))?$/.exec(text);
  if (!found) throw new Error(`"${text}" is not a number`);
  const [, sign, whole, decimals = '', unit = ''] = found;
  const value = Number(`${sign}${whole.replaceAll(',', '')}.${decimals || '0'}`);
  return { value, half: 0.5 * 10 ** -decimals.length, unit };
}

/** What a value of the document should be shown as, and in which unit. */
function expected(kind, value, unit) {
  switch (kind) {
    case 'overhead': return (value - 1) * 100;
    case 'loss': return (1 - value) * 100;
    case 'growth': return value * 100;
    case 'thousandths': return value / 10;
    case 'millionths': return value / 10_000;
    case 'factor':
    case 'count': return value;
    case 'seconds': return (value * 1e9) / scale('nanoseconds', unit);
    case 'nanoseconds':
    case 'bytes': return value / scale(kind, unit);
    default: throw new Error(`numbers of kind "${kind}" are unknown`);
  }
}

function scale(kind, unit) {
  const found = UNITS[kind][unit];
  if (!found) throw new Error(`"${unit}" is no unit of ${kind}`);
  return found;
}

/** The value that a cell is about: that at its place, or what others make of it. */
function amount(cell, document) {
  let value = at(document, cell.from);
  if (typeof value !== 'number') throw new Error(`${cell.from} is no number`);
  if (cell.per) value /= at(document, cell.per);
  if (cell.by) value *= at(document, cell.by);
  if (cell.more) value *= at(document, cell.more) - 1;
  if (cell.plus) value += at(document, cell.plus);
  return value;
}

/** Why what is shown is not what the document holds; undefined when it is. */
function mismatch(cell, document) {
  try {
    const value = at(document, cell.from);
    if (cell.as === 'text') {
      const same = String(value).replace(/\s+/g, ' ').trim() === cell.text;
      return same ? undefined : `${cell.from} is "${value}", shown "${cell.text}"`;
    }
    const shown = parse(cell.text);
    const wanted = expected(cell.as, amount(cell, document), shown.unit);
    const slack = shown.half * (1 + 1e-6) + Math.abs(wanted) * 1e-9;
    const close = Math.abs(shown.value - wanted) <= slack;
    return close ? undefined : `${cell.from} is ${value}, shown "${cell.text}"`;
  } catch (error) {
    return `${cell.from}: ${error.message}`;
  }
}

module.exports = { at, mismatch, parse };
