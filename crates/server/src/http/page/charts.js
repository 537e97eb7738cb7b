// Charts of figures over time. A chart has its height from the start, so nothing moves when figures
// come.

import { el, shape } from './text.js';

/** So many samples are kept: ten minutes of them. */
export const KEPT = 300;
const WIDTH = 300;
const HEIGHT = 100;

/** A chart of some series, each `{name, values}`, lines or a stack of areas. */
export class Chart {
  constructor(title, text, { stacked = false, base = 10 } = {}) {
    this.text = text;
    this.base = base;
    this.stacked = stacked;
    this.top = el('span.top');
    this.picture = shape('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none',
      role: 'img', 'aria-label': title });
    this.legend = el('div.legend');
    this.node = el('section.card.chart', el('h2', title), el('div.plot', this.picture, this.top),
      this.legend);
  }

  draw(series) {
    const length = Math.max(0, ...series.map((one) => one.values.length));
    const base = new Array(length).fill(0);
    const layers = series.map(({ values }) => {
      const upper = values.map((value, at) => (this.stacked ? base[at] : 0) + (value ?? 0));
      const lower = this.stacked ? base.slice() : null;
      if (this.stacked) upper.forEach((value, at) => { base[at] = value; });
      return { upper, lower };
    });
    const most = ceiling(Math.max(0, ...layers.flatMap((layer) => layer.upper)), this.base);
    const place = (value, at) => {
      const x = WIDTH - (length - 1 - at) * (WIDTH / (KEPT - 1));
      return `${x.toFixed(1)} ${(HEIGHT - (value / most) * HEIGHT * 0.94).toFixed(1)}`;
    };
    const nodes = [0.25, 0.5, 0.75].map((part) => shape('line', { class: 'grid-line', x1: 0,
      x2: WIDTH, y1: HEIGHT * part, y2: HEIGHT * part }));
    layers.forEach(({ upper, lower }, index) => {
      const kind = `k${(index % 6) + 1}`;
      const line = upper.map(place);
      if (line.length === 0) return;
      if (this.stacked || series.length === 1) {
        const back = (lower ?? upper.map(() => 0)).map(place).reverse();
        nodes.push(shape('path', { class: `area ${kind}`, d: `M${[...line, ...back].join('L')}Z` }));
      }
      nodes.push(shape('path', { class: `line ${kind}`, d: `M${line.join('L')}` }));
    });
    this.picture.replaceChildren(...nodes);
    this.top.textContent = length ? this.text(most) : '';
    this.legend.replaceChildren(...series.map(({ name, values }, index) => {
      const last = values.length ? values[values.length - 1] : NaN;
      return el('span', el(`i.k${(index % 6) + 1}`), `${name} `, el('b', this.text(last ?? NaN)));
    }));
  }
}

/** The next number that is round where units grow by tens, or by 1024. */
function ceiling(number, base) {
  if (number <= 0) return 1;
  if (base === 2) return 2 ** Math.ceil(Math.log2(number));
  const step = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 5, 10].map((part) => part * step).find((round) => round >= number);
}
