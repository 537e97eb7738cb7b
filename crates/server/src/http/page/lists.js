// The views that are tables: keys and prefixes that stand out, slow commands, clients, and the
// configuration.

import { read } from './api.js';
import { count, counted, el, micros, seconds, shown, size } from './text.js';

/** A table with a filter and columns to sort by. A column is
  * `[head, text of a row, number of a row, class]`. Where there are choices, each is
  * `[word, path]`. */
export function table(main, { title, path, choices, columns, refresh, note, className, rowsOf }) {
  const field = el('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter',
    autocomplete: 'off', spellcheck: false });
  const body = el('tbody');
  const summary = el('span.dim', { role: 'status' });
  let all = [];
  let sorted = null;
  let descending = false;
  const order = (at) => {
    descending = sorted === at ? !descending : false;
    sorted = at;
    draw();
  };
  const classes = ([, , rank, kind]) => `${rank ? '.number' : ''}${kind ? `.${kind}` : ''}`;
  const heads = columns.map((column, at) => el(`th${classes(column)}`, el('button',
    { type: 'button', onclick: () => order(at) }, column[0])));
  const choice = choices && el('select', { 'aria-label': 'By', onchange: () => look() },
    choices.map(([word, there]) => el('option', { value: there }, word)));
  main.replaceChildren(el('h1', title), el('div.bar', field, choice, summary),
    el('section.card.scroll', el('table', el('thead', el('tr', heads)), body)));
  const draw = () => {
    const wanted = field.value.toLowerCase();
    let rows = all.map((row) => ({ row, texts: columns.map(([, text]) => text(row)) }))
      .filter(({ texts }) => texts.some((text) => text.toLowerCase().includes(wanted)));
    if (sorted !== null) {
      const [, , rank] = columns[sorted];
      rows.sort((one, other) => (rank ? rank(other.row) - rank(one.row) :
        one.texts[sorted].localeCompare(other.texts[sorted])));
      if (descending) rows = rows.reverse();
    }
    heads.forEach((head, at) => {
      head.ariaSort = sorted === at ? (descending ? 'descending' : 'ascending') : 'none';
    });
    summary.className = 'dim';
    summary.textContent = counted(rows.length, note);
    body.replaceChildren(...rows.map(({ row, texts }) => el(`tr.${className?.(row) ?? 'row'}`,
      texts.map((text, at) => el(`td.words${classes(columns[at])}`, text)))));
    if (!rows.length) body.append(el('tr', el('td.empty', { colSpan: columns.length }, 'None.')));
  };
  field.addEventListener('input', draw);
  let timer = null;
  let is_over = false;
  const look = async () => {
    clearTimeout(timer);
    const wanted = choice ? choice.value : path;
    try {
      const told = await read(wanted);
      // Another may have been chosen meanwhile.
      if (is_over || (choice && choice.value !== wanted)) return;
      all = rowsOf ? rowsOf(told) : told;
      draw();
    } catch (failure) {
      summary.className = 'bad';
      summary.textContent = failure.message;
    }
    clearTimeout(timer);
    if (!is_over && refresh) timer = setTimeout(look, refresh);
  };
  look();
  return () => { is_over = true; clearTimeout(timer); };
}

export function slow(main) {
  return table(main, { title: 'Slow commands', path: 'slow', refresh: 5000, note: 'slow command', columns: [
    ['When', (row) => new Date(row.time * 1000).toLocaleString(), (row) => row.time, 'left'],
    ['Took', (row) => micros(row.micros), (row) => row.micros],
    ['Command', (row) => row.words.map(shown).join(' ')],
    ['Client', (row) => `${shown(row.addr)}${row.name ? ` ${shown(row.name)}` : ''}`, null, 'doc'],
  ] });
}

const share = (part) => `${(part * 100).toFixed(part < 0.1 ? 1 : 0)} %`;

export function hotKeys(main) {
  const is_bytes = () => main.querySelector('select').value.endsWith('bytes');
  const is_time = () => main.querySelector('select').value.endsWith('time');
  const rate = (number) => {
    if (is_time()) return `${micros(number)} each second`;
    return `${is_bytes() ? size(number) : count(number)} each second`;
  };
  return table(main, { title: 'Hot keys', refresh: 3000, note: 'hot key', choices: [
    ['by requests', 'hotkeys?by=requests'], ['by bytes', 'hotkeys?by=bytes'],
    ['by time', 'hotkeys?by=time'],
  ], columns: [
    ['Key', (row) => shown(row.key)],
    ['Database', (row) => String(row.db), (row) => row.db, 'doc'],
    ['Takes', (row) => rate(row['per-second']), (row) => row['per-second']],
    ['Of all', (row) => share(row.share), (row) => row.share],
  ] });
}

export function bigKeys(main) {
  return table(main, { title: 'Big keys', refresh: 10000, note: 'big key', choices: [
    ['by memory', 'bigkeys?by=memory'], ['by elements', 'bigkeys?by=elements'],
  ], columns: [
    ['Key', (row) => shown(row.key)],
    ['Database', (row) => String(row.db), (row) => row.db, 'doc'],
    ['Type', (row) => row.type],
    ['Memory', (row) => size(row.bytes), (row) => row.bytes],
    ['Elements', (row) => (row.elements === null ? '–' : count(row.elements)), (row) => row.elements ?? 0],
  ] });
}

export function prefixes(main) {
  const rowsOf = (told) => [...told.prefixes,
    { name: '(without a prefix)', ...told['without-prefix'] }, { name: '(others)', ...told.others },
  ].filter((row) => row.keys > 0);
  return table(main, { title: 'Prefixes', path: 'prefixes', note: 'prefix', rowsOf, columns: [
    ['Prefix', (row) => row.name ?? shown(row.prefix)],
    ['Keys', (row) => count(row.keys), (row) => row.keys],
    ['Memory', (row) => size(row.bytes), (row) => row.bytes],
    ['Requests', (row) => (row.name ? '–' : `${count(row['requests-per-second'])} each second`),
      (row) => row['requests-per-second'] ?? 0],
  ] });
}

export function clients(main) {
  return table(main, { title: 'Clients', path: 'clients', refresh: 3000, note: 'client', columns: [
    ['ID', (row) => row.id, (row) => Number(row.id)],
    ['Address', (row) => row.addr],
    ['Name', (row) => row.name || '–'],
    ['User', (row) => row.user],
    ['Database', (row) => row.db, (row) => Number(row.db), 'doc'],
    ['Last command', (row) => row.cmd.replace('|', ' ')],
    ['Age', (row) => seconds(Number(row.age)), (row) => Number(row.age)],
    ['Idle', (row) => seconds(Number(row.idle)), (row) => Number(row.idle)],
    ['Memory', (row) => size(Number(row['tot-mem'])), (row) => Number(row['tot-mem']), 'doc'],
    ['Flags', (row) => row.flags, null, 'doc'],
  ] });
}

export function configuration(main) {
  const is_changed = (row) => row.default !== undefined && row.value !== row.default;
  const does = (row) => [row.doc, row.cost && `Cost: ${row.cost}`,
    row.status !== 'works' && `Status: ${row.status}.`].filter(Boolean).join(' ');
  return table(main, { title: 'Configuration', path: 'config', note: 'directive',
    className: (row) => (is_changed(row) ? 'changed' : 'row'), columns: [
      ['Directive', (row) => shown(row.name)],
      ['Value', (row) => (row.value === '' ? '""' : shown(row.value))],
      ['Default', (row) => (row.default === '' ? '""' : shown(row.default ?? '–')), null, 'doc'],
      ['May change', (row) => ({ live: 'at any time', startup: 'at the start',
        protected: 'if protected configs may' }[row.access] ?? '–'), null, 'doc'],
      ['What it does', does],
    ] });
}
