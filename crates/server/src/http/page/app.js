// The frame of the dashboard: its views, the line of state, and the keys of the keyboard.

import { accounts } from './accounts.js';
import { read } from './api.js';
import { console_ } from './console.js';
import { keys } from './keys.js';
import { bigKeys, clients, configuration, hotKeys, prefixes, slow } from './lists.js';
import { overview } from './overview.js';
import { replication } from './replication.js';
import { follow, samples, watch } from './samples.js';
import { el } from './text.js';

const VIEWS = [
  ['overview', 'Overview', overview], ['keys', 'Keys', keys], ['hot', 'Hot keys', hotKeys],
  ['big', 'Big keys', bigKeys], ['prefixes', 'Prefixes', prefixes], ['slow', 'Slow commands', slow],
  ['clients', 'Clients', clients], ['accounts', 'Accounts', accounts],
  ['replication', 'Replication', replication],
  ['configuration', 'Configuration', configuration], ['console', 'Console', console_],
];
const main = document.getElementById('main');
const state = document.getElementById('state');
// In the order of a keyboard's upper row.
const keyOf = (at) => '1234567890-'[at];
const links = VIEWS.map(([name, title], at) => el('a', { href: `#${name}`,
  title: `${title} (${keyOf(at)})` }, title));
let end = () => {};
let me = null;

document.getElementById('nav').append(...links);

async function show() {
  const wanted = Math.max(0, VIEWS.findIndex(([name]) => `#${name}` === location.hash));
  const [, title, view] = VIEWS[wanted];
  links.forEach((link, at) => {
    if (at === wanted) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  });
  document.title = `${title} – Apus`;
  end();
  end = () => {};
  try {
    me ??= await read('me');
  } catch (failure) {
    main.replaceChildren(el('h1', title), el('p.bad', { role: 'alert' }, failure.message),
      el('button', { type: 'button', onclick: show }, 'Try again'));
    return;
  }
  end = view(main, me);
  main.dataset.view = VIEWS[wanted][0];
}

function tell() {
  const { failure, info } = samples;
  const is_loading = info?.Persistence?.loading === '1';
  state.className = failure || is_loading ? 'bad' : '';
  if (failure) state.textContent = failure.message;
  else if (is_loading) state.textContent = `loading, ${info.Persistence.loading_loaded_perc ?? '…'} %`;
  else state.textContent = `${info.Server.apus_version ?? ''} on port ${info.Server.tcp_port}`;
  state.title = state.textContent;
}

function paint(theme) {
  document.documentElement.dataset.theme = theme;
}

const system = matchMedia('(prefers-color-scheme: dark)');
const chosen = () => localStorage.getItem('apus-theme') ?? (system.matches ? 'dark' : 'light');
paint(chosen());
system.addEventListener('change', () => paint(chosen()));

function turn() {
  localStorage.setItem('apus-theme', chosen() === 'dark' ? 'light' : 'dark');
  paint(chosen());
}

document.getElementById('theme').addEventListener('click', turn);
document.addEventListener('keydown', (event) => {
  const is_typing = event.target.closest('input, select, textarea, dialog');
  if (is_typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const view = VIEWS.find((_, at) => event.key === keyOf(at));
  if (view) location.hash = view[0];
  else if (event.key === 't') turn();
  else if (event.key === '/') {
    const field = main.querySelector('input');
    if (field) { event.preventDefault(); field.focus(); }
  }
});
addEventListener('hashchange', show);
follow(tell);
show();
watch();
