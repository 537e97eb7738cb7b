// The browser of keys: pages of names by SCAN, and a page of a value at a time.

import { read } from './api.js';
import { bytesOf, count, counted, el, escaped, lifetime, page, quoted, shown, size } from './text.js';

const TYPES = ['string', 'hash', 'list', 'set', 'zset', 'stream', 'array'];
const ROWS = 100;
const LOOK_MOST_MS = 20000;

export function keys(main, me) {
  const rows = el('ul.rows', { 'aria-label': 'Keys' });
  const note = el('p.dim', { role: 'status' });
  const more = el('button', { type: 'button' }, 'More keys');
  const value = el('section.card', { 'aria-label': 'The value' }, el('p.empty', 'Choose a key.'));
  const field = el('input', { type: 'search', placeholder: 'Names that begin with …',
    'aria-label': 'Names', autocomplete: 'off', spellcheck: false });
  const option = (text, name) => el('option', { value: name }, text);
  const how = el('select', { 'aria-label': 'How names are found' }, option('prefix', 'prefix'),
    option('pattern', 'match'));
  const type = el('select', { 'aria-label': 'Type' }, option('all types', ''),
    TYPES.map((name) => option(name, name)));
  const database = el('select', { 'aria-label': 'Database' },
    Array.from({ length: me.databases }, (_, at) => option(`db ${at}`, String(at))));
  const search = el('form.bar', { onsubmit: (event) => { event.preventDefault(); begin(); } },
    field, how, type, database, el('button.primary', { type: 'submit' }, 'Find'));
  main.replaceChildren(el('h1', 'Keys'), search, el('div.split',
    el('section.card', { 'aria-label': 'The keys' }, rows, note, more), value));
  let going = null;
  let cursor = '0';

  const begin = () => { cursor = '0'; rows.replaceChildren(); look(); };
  const look = async () => {
    going?.abort();
    const mine = going = new AbortController();
    more.disabled = true;
    note.className = 'dim';
    note.textContent = 'Looking …';
    let found = 0;
    const until = performance.now() + LOOK_MOST_MS;
    // Where few names match, many looks find nothing; each of them is short.
    const each = field.value || type.value ? 1000 : 200;
    try {
      while (found < ROWS && performance.now() < until) {
        const answer = await read(`keys?db=${database.value}&cursor=${cursor}&count=${each}&type=${
          type.value}&${how.value}=${escaped(field.value)}`, { signal: mine.signal });
        cursor = answer.cursor;
        found += answer.keys.length;
        rows.append(...answer.keys.map(row));
        if (cursor === '0') break;
      }
      const told = counted(rows.children.length, 'key');
      note.textContent = cursor === '0' ? `${told}, and no more` : `${told} so far`;
      more.disabled = cursor === '0';
    } catch (failure) {
      if (failure.name === 'AbortError') return;
      note.className = 'bad';
      note.textContent = failure.message;
    }
  };
  const row = (key) => el('li', el('button', { type: 'button', 'aria-pressed': 'false',
    title: quoted(key.name), onclick: (event) => choose(event.currentTarget, key) },
  el('span.name.mono', shown(key.name)), el('span.badge', key.type ?? '?'),
  el('span.right.dim.size', key.bytes === null ? '–' : size(key.bytes)),
  el('span.right.dim', lifetime(key.ttl_ms))));
  const choose = (button, key) => {
    for (const one of rows.querySelectorAll('[aria-pressed="true"]')) one.ariaPressed = 'false';
    button.ariaPressed = 'true';
    show(value, database.value, key.name);
    // On a narrow window the value stands below the keys.
    if (matchMedia('(max-width: 760px)').matches) value.scrollIntoView({ block: 'start' });
  };
  rows.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 'nextElementSibling', ArrowUp: 'previousElementSibling' }[event.key];
    const next = step && event.target.closest('li')?.[step];
    if (!next) return;
    event.preventDefault();
    next.firstChild.focus();
  });
  more.addEventListener('click', look);
  for (const choice of [type, database]) choice.addEventListener('change', begin);
  begin();
  return () => going?.abort();
}

/** Shows a key and the first page of its value. */
async function show(place, database, name) {
  const ask = (at) => read(`key?db=${database}&name=${escaped(name)}&at=${encodeURIComponent(at)}`);
  const is_wanted = Symbol('wanted');
  place.wanted = is_wanted;
  try {
    const told = await ask('');
    if (place.wanted !== is_wanted) return;
    const fact = (label, text) => el('span', `${label} `, el('b', text));
    const body = el('div');
    const more = el('button', { type: 'button' }, 'More');
    place.replaceChildren(el('div.head', el('h2', el('span.mono.words', shown(name))),
      el('div.facts', fact('type', told.type ?? '?'), fact('encoding', told.encoding ?? '–'),
        fact('length', told.length === undefined ? '–' : count(told.length)),
        fact('memory', told.bytes === null ? '–' : size(told.bytes)),
        fact('expires in', lifetime(told.ttl_ms)))), body, more);
    if (told.type === 'none') {
      body.append(el('p.empty', 'The key is gone.'));
    }
    let { next } = told;
    add(body, told, 0);
    more.hidden = next === null || next === undefined;
    more.addEventListener('click', async () => {
      more.disabled = true;
      try {
        const answer = await ask(next);
        add(body, answer, Number(next));
        ({ next } = answer);
        more.hidden = next === null;
      } catch (failure) {
        body.append(el('p.bad', failure.message));
      }
      more.disabled = false;
    });
  } catch (failure) {
    if (place.wanted === is_wanted) place.replaceChildren(el('p.empty.bad', failure.message));
  }
}

const HEADS = { hash: ['Field', 'Value'], list: ['Index', 'Element'], set: ['Member'],
  zset: ['Member', 'Score'], stream: ['ID', 'Fields'], array: ['Index', 'Element'] };

function add(body, { type, items }, at) {
  if (items === undefined) return;
  if (type === 'string') {
    body.append(el('pre.value', at === 0 || typeof items !== 'string' ? page(items) : items));
    return;
  }
  if (!body.querySelector('tbody')) {
    body.append(el('table', el('thead', el('tr', HEADS[type].map((name) => el('th', name)))),
      el('tbody')));
  }
  body.querySelector('tbody').append(...lines(type, items, at).map((cells) =>
    el('tr', cells.map((cell) => el('td.mono.words', text(cell))))));
}

function lines(type, items, at) {
  if (type === 'hash') {
    return items.filter((_, index) => index % 2 === 0).map((name, index) =>
      [name, items[2 * index + 1]]);
  }
  if (type === 'list') return items.map((item, index) => [at + index, item]);
  if (type === 'set') return items.map((item) => [item]);
  return items;
}

function text(cell) {
  if (typeof cell === 'number') return String(cell);
  if (Array.isArray(cell)) {
    return cell.filter((_, at) => at % 2 === 0).map((name, at) =>
      `${shown(name)}: ${shown(cell[2 * at + 1])}`).join('\n');
  }
  if (cell !== null && typeof cell === 'object' && !('base64' in cell)) {
    return cell.integer ?? cell.double ?? JSON.stringify(cell);
  }
  const long = bytesOf(cell).length > 2000;
  return long ? `${shown(cell).slice(0, 2000)} …` : shown(cell);
}
