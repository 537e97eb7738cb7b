// The console: commands with completion, and replies as redis-cli shows them.

import { read, run } from './api.js';
import { el, page, quoted } from './text.js';

const KEPT = 200;
const history = [];

export function console_(main, me) {
  const output = el('div.card.output', { role: 'log', 'aria-label': 'Replies', tabIndex: 0 });
  const field = el('input.mono', { 'aria-label': 'Command', placeholder: 'Command', autocomplete: 'off',
    autocapitalize: 'off', spellcheck: false });
  const hint = el('div.hint.dim');
  const choices = el('ul.choices', { 'aria-label': 'Completions' });
  const prompt = el('span.mono.dim');
  const what = { none: 'http-commands allows no commands here.',
    read: 'Commands that read; http-commands all would allow all others.',
    all: 'All commands that your user may run.' }[me.commands];
  let database = 0;
  let at = history.length;
  let commands = [];
  const ask = () => { prompt.textContent = database ? `[${database}]>` : '>'; };
  ask();
  main.replaceChildren(el('h1', 'Console'), el('div.console', output, hint, choices,
    el('form', { onsubmit: (event) => { event.preventDefault(); submit(); } }, prompt, field,
      el('button.primary', { type: 'submit' }, 'Run')), el('p.dim', what)));
  const say = (kind, text) => {
    output.append(el(`pre.${kind}`, text));
    while (output.children.length > 2 * KEPT) output.firstChild.remove();
    output.scrollTop = output.scrollHeight;
  };
  const submit = async () => {
    const line = field.value.trim();
    if (!line) return;
    if (history.at(-1) !== line && !/^\s*(auth|acl|hello|config\s+set)\b/i.test(line)) history.push(line);
    at = history.length;
    field.value = '';
    complete();
    if (/^clear$/i.test(line)) { output.replaceChildren(); return; }
    say('asked', `${prompt.textContent} ${line}`);
    try {
      const reply = await run(line, database);
      const chosen = line.match(/^select\s+(\d+)$/i);
      if (chosen && reply?.status === 'OK') { database = Number(chosen[1]); ask(); }
      say(reply?.error ? 'bad' : 'reply', told(reply));
    } catch (failure) {
      say('bad', failure.message);
    }
  };
  const complete = () => {
    const line = field.value.replace(/^\s+/, '').toUpperCase();
    const exact = commands.filter(({ name }) => line === name || line.startsWith(`${name} `))
      .sort((one, other) => other.name.length - one.name.length)[0];
    hint.textContent = exact ? `${exact.name} ${exact.syntax} — ${exact.summary}` : '';
    const found = line ? commands.filter(({ name }) => name.startsWith(line) && name !== line) : [];
    found.sort((one, other) => one.name.length - other.name.length);
    choices.replaceChildren(...found.slice(0, 12).map(({ name, summary }) => el('li', el('button.mono',
      { type: 'button', tabIndex: -1, title: summary, onclick: () => take(name) }, name))));
    return found;
  };
  const take = (name) => { field.value = `${name} `; complete(); field.focus(); };
  field.addEventListener('input', complete);
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Tab' && !event.shiftKey) {
      const [first] = complete();
      if (first) { event.preventDefault(); take(first.name); }
    } else if (event.key === 'ArrowUp' || event.key === 'ArrowDown') {
      at = Math.max(0, Math.min(history.length, at + (event.key === 'ArrowUp' ? -1 : 1)));
      field.value = history[at] ?? '';
      complete();
      event.preventDefault();
    } else if (event.key === 'Escape') {
      field.value = '';
      complete();
    }
  });
  read('commands').then((all) => {
    commands = all.filter(({ rights }) => rights === 'read' || rights === 'write' && me.commands === 'all');
    complete();
  }).catch((failure) => say('bad', failure.message));
  field.focus();
  return () => {};
}

/** A reply as redis-cli would show it. */
function told(reply, indent = '') {
  if (reply === null) return '(nil)';
  if (typeof reply === 'number') return Number.isInteger(reply) ? `(integer) ${reply}` : `(double) ${reply}`;
  if (typeof reply === 'boolean') return `(${reply})`;
  if (typeof reply === 'string') {
    return indent === '' && reply.includes('\n') ? page(reply.replace(/\r/g, '')) : quoted(reply);
  }
  if (Array.isArray(reply)) return listed(reply, (item, inner) => told(item, inner), indent, ')');
  if ('map' in reply) {
    return listed(reply.map, ([key, item], inner) => `${told(key, inner)} => ${told(item, `${inner}   `)}`,
      indent, '#');
  }
  if ('error' in reply) return `(error) ${page(reply.error)}`;
  if ('status' in reply) return page(reply.status);
  if ('integer' in reply) return `(integer) ${reply.integer}`;
  if ('double' in reply) return `(double) ${reply.double}`;
  return quoted(reply);
}

function listed(items, text, indent, mark) {
  if (items.length === 0) return mark === '#' ? '(empty hash)' : '(empty array)';
  const width = String(items.length).length;
  const inner = `${indent}${' '.repeat(width + 2)}`;
  return items.map((item, at) => `${at ? indent : ''}${String(at + 1).padStart(width)}${mark} ${
    text(item, inner)}`).join('\n');
}
