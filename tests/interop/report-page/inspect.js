// What is read out of a loaded page. Each function runs in the browser and stands alone.
'use strict';

/** Every number and name that tells where it comes from, with its row and column. */
function cells() {
  const clean = (text) => text.replace(/\s+/g, ' ').trim();
  return [...document.querySelectorAll('[data-from]')].map((element) => {
    const cell = element.closest('td, th');
    const table = cell && cell.closest('table');
    const single = table && table.tHead && table.tHead.rows.length === 1;
    const head = single ? table.tHead.rows[0].cells[cell.cellIndex] : undefined;
    const row = cell && cell.closest('tr').querySelector('th[scope=row] [data-from]');
    return {
      from: element.dataset.from,
      as: element.dataset.as,
      per: element.dataset.per,
      by: element.dataset.by,
      more: element.dataset.more,
      plus: element.dataset.plus,
      text: clean(element.textContent),
      column: head && clean(head.textContent),
      row: row ? row.dataset.from : undefined,
    };
  });
}

/** Texts with a digit that do not tell where they come from. */
function loose() {
  const found = [];
  const main = document.querySelector('main');
  const walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const home = node.parentElement.closest('[data-from], [data-fixed], svg');
    if (!home && /\d/.test(node.data)) found.push(node.data.trim());
  }
  return found;
}

/** Numbers, axis marks and marks of each forest plot, in the order in which they are drawn. */
function forests() {
  const centre = (mark) => {
    const of = (name) => Number(mark.getAttribute(name));
    if (mark.tagName === 'circle') return of('cx');
    if (mark.tagName === 'rect') return of('x') + of('width') / 2;
    const points = mark.getAttribute('points').trim().split(' ');
    const xs = points.map((point) => Number(point.split(',')[0]));
    return (Math.min(...xs) + Math.max(...xs)) / 2;
  };
  return [...document.querySelectorAll('.forest svg')].map((svg) => {
    const texts = [...svg.querySelectorAll('text')];
    const of = (ink) => ({
      numbers: texts.filter((text) => text.classList.contains(ink)).map((t) => t.textContent),
      marks: ['circle', 'rect', 'polygon']
        .flatMap((shape) => [...svg.querySelectorAll(`${shape}.fill.${ink}`)]).map(centre),
    });
    return {
      ticks: texts
        .filter((text) => text.classList.contains('quiet') && !text.textContent.includes(' to '))
        .map((text) => ({ text: text.textContent, x: Number(text.getAttribute('x')) })),
      intervals: texts.map((text) => text.textContent).filter((text) => text.includes(' to ')),
      series: Object.fromEntries(['one', 'two', 'three', 'four'].map((ink) => [ink, of(ink)])),
    };
  });
}

/** Intervals of each plot of many runs: how many hold the truth, how many do not. */
function bands() {
  return [...document.querySelectorAll('.bands')].map((figure) => {
    const count = (ink) => figure.querySelectorAll(`svg polyline.stroke.${ink}`).length;
    return { counted: figure.dataset.counted, hold: count('one'), miss: count('two') };
  });
}

/** How far things reach, and how small the texts of charts are. */
function measures() {
  const width = document.documentElement.clientWidth;
  const inside = (element) => element.closest('.wide, pre') !== null;
  const wide = [...document.querySelectorAll('main *')].filter((element) => (
    !inside(element) && element.getBoundingClientRect().right > width + 1));
  const letters = [...document.querySelectorAll('svg.chart text')]
    .filter((text) => text.getClientRects().length > 0)
    .map((text) => {
      const svg = text.closest('svg');
      const scale = svg.clientWidth / svg.viewBox.baseVal.width;
      return scale * parseFloat(getComputedStyle(text).fontSize);
    });
  return {
    scroll: document.documentElement.scrollWidth,
    width,
    wide: wide.slice(0, 5).map((element) => `${element.tagName} ${element.className}`),
    letters: letters.length ? Math.min(...letters) : undefined,
  };
}

/** Contrast with the paper of every ink that charts use: axe does not look into SVG. */
function inks() {
  const channels = (color) => color.match(/[\d.]+/g).slice(0, 3).map(Number);
  const luminance = (color) => {
    const [r, g, b] = channels(color).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = luminance(getComputedStyle(document.body).backgroundColor);
  const found = {};
  for (const element of document.querySelectorAll('svg.chart .fill, svg.chart .stroke')) {
    const ink = element.classList[1];
    if (ink === 'paper' || ink === 'grid') continue;
    const own = luminance(getComputedStyle(element).color);
    found[ink] = (Math.max(own, paper) + 0.05) / (Math.min(own, paper) + 0.05);
  }
  return { paper, found };
}

/** Opens every fold, or closes it. */
function unfold(open) {
  for (const fold of document.querySelectorAll('details')) fold.open = open;
}

/** Sections, and what of the page is not laid out though no fold holds it. */
function hidden() {
  const folded = (element) => element.closest('details:not([open])') !== null;
  const laid = (element) => !folded(element) && element.getClientRects().length > 0;
  const numbers = [...document.querySelectorAll('[data-from]')].filter((each) => !folded(each));
  return {
    sections: [...document.querySelectorAll('section')].map((section) => section.id),
    empty: [...document.querySelectorAll('section')]
      .filter((section) => section.getBoundingClientRect().height < 20)
      .filter((section) => !section.matches(':has(> details:only-child:not([open]))'))
      .map((section) => section.id),
    missing: numbers.filter((each) => !laid(each)).map((each) => each.dataset.from).slice(0, 5),
    charts: [...document.querySelectorAll('svg.chart')].filter(laid).length,
  };
}

/** The document that the page carries. */
function embedded() {
  return document.getElementById('results').textContent;
}

module.exports = {
  bands, cells, embedded, forests, hidden, inks, loose, measures, unfold,
};
