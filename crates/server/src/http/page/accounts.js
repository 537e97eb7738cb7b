// The view of accounts: what each user and each database took, and how near its limits are.

import { table } from './lists.js';
import { count, el, micros, seconds, shown, size } from './text.js';

const LIMITS = ['requests', 'bytes-in', 'bytes-out', 'cpu-microseconds'];

/** A number, which is told in words where it is beyond what a script reads right. */
const figure = (told) => Number(told?.integer ?? told);

const amount = (limit, number) => {
  if (limit === 'cpu-microseconds') return micros(number);
  return limit === 'requests' ? count(number) : size(number);
};

const percent = (part) => `${Math.round(part * 100)} %`;

/** Each limit of an account: its word, how much of it is spent, and what it allows. */
function limitsOf(row) {
  const limits = Object.entries(row.limits).map(([limit, rate]) => {
    const [most, period] = rate.split('/').map(Number);
    const spent = 1 - figure(row.remaining[limit]) / most;
    return { limit, spent, allows: `${amount(limit, most)} in ${seconds(period)}` };
  });
  const most = figure(row['memory-max'] ?? 0);
  if (most) {
    limits.push({ limit: 'memory', spent: figure(row.memory) / most, allows: size(most) });
  }
  return limits;
}

/** The rows of both halves, with what came since the last look. A half that may not be seen is told
  * as a row that says so. */
function rowsOf(told, before) {
  const rows = [];
  for (const [half, kind] of [['users', 'user'], ['databases', 'database']]) {
    if (!Array.isArray(told[half])) {
      rows.push({ kind, name: '–', refusal: shown(told[half].error) });
      continue;
    }
    for (const one of told[half]) {
      const name = kind === 'user' ? shown(one.user) : String(one.db);
      const limits = limitsOf(one);
      const key = JSON.stringify([kind, one.user ?? one.db]);
      const row = { kind, name, key, limits, rejected: figure(one.rejected), taken: {}, rates: {},
        memory: kind === 'user' ? NaN : figure(one.memory) };
      row.spent = Math.max(0, ...limits.map(({ spent }) => spent));
      const old = before.rows.get(key);
      for (const limit of LIMITS) {
        row.taken[limit] = figure(one[limit]);
        const more = row.taken[limit] - (old?.taken[limit] ?? NaN);
        row.rates[limit] = more < 0 ? NaN : more / before.seconds;
      }
      rows.push(row);
    }
  }
  return rows;
}

export function accounts(main) {
  let before = { at: performance.now(), rows: new Map() };
  const follow = (told) => {
    const at = performance.now();
    const rows = rowsOf(told, { rows: before.rows, seconds: (at - before.at) / 1000 });
    before = { at, rows: new Map(rows.map((row) => [row.key, row])) };
    hint.hidden = told.accounting;
    return rows;
  };
  const taken = (head, limit, kind) => [head, (row) => {
    if (row.refusal) return '–';
    const now = row.rates[limit];
    const rate = Number.isFinite(now) ? `\n${amount(limit, now)}/s` : '';
    return `${amount(limit, row.taken[limit])}${rate}`;
  }, (row) => row.taken?.[limit] ?? 0, kind];
  const told = (row) => row.refusal ?? (row.limits.length ? row.limits.map(
    ({ limit, spent, allows }) => `${limit} ${percent(spent)} of ${allows}`).join('\n') : '–');
  const state = (row) => {
    if (row.refusal || !row.limits.length) return 'row';
    if (row.spent >= 1) return 'full';
    return row.spent >= 0.8 ? 'near' : 'row';
  };
  const end = table(main, { title: 'Accounts', path: 'accounts', refresh: 3000, note: 'account',
    rowsOf: follow, className: state, columns: [
      ['Account', (row) => `${row.kind} ${row.name}`],
      taken('Requests', 'requests'), taken('Bytes in', 'bytes-in', 'doc'),
      taken('Bytes out', 'bytes-out', 'doc'), taken('Time', 'cpu-microseconds', 'doc'),
      ['Memory', (row) => (Number.isFinite(row.memory) ? size(row.memory) : '–'),
        (row) => row.memory || 0, 'doc'],
      ['Refused', (row) => (row.refusal ? '–' : count(row.rejected)), (row) => row.rejected ?? 0],
      ['Limits', told, (row) => row.spent ?? 0, 'left'],
    ] });
  const hint = el('p.dim', { hidden: true },
    'Nothing is counted: usage-accounting is off, and there is no user-quota and no db-quota.');
  main.append(hint);
  return end;
}
