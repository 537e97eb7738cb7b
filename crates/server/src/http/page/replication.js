// Replication as a picture: the primary above, this server, and its replicas below.

import { follow, samples } from './samples.js';
import { count, el, pairs, seconds, shape, shown, size } from './text.js';

const WIDE = 210;
const HIGH = 84;
const GAP = 30;

export function replication(main) {
  const picture = el('section.card.picture', { 'aria-label': 'The picture' });
  const facts = el('div.facts');
  main.replaceChildren(el('h1', 'Replication'), el('div.bar', facts), picture);
  const draw = () => {
    const told = samples.info?.Replication;
    if (!told) return;
    const fact = (label, text) => el('span', `${label} `, el('b', text));
    facts.replaceChildren(fact('role', told.role === 'slave' ? 'replica' : 'primary'),
      fact('offset', told.master_repl_offset), fact('backlog', `${size(Number(
        told.repl_backlog_histlen))} of ${size(Number(told.repl_backlog_size))}`),
      fact('failover', told.master_failover_state));
    picture.replaceChildren(paint(told));
  };
  draw();
  return follow(draw);
}

function paint(told) {
  const replicas = Object.entries(told).filter(([name]) => /^slave\d+$/.test(name))
    .map(([, line]) => pairs(line));
  const is_replica = told.role === 'slave';
  const columns = Math.max(1, Math.min(4, replicas.length));
  const lines = Math.ceil(replicas.length / columns);
  const width = columns * (WIDE + GAP) + GAP;
  const level = HIGH + 56;
  const own = is_replica ? level : 0;
  const height = own + HIGH + 20 + lines * level;
  const nodes = [];
  const middle = (width - WIDE) / 2;
  const link = (from, to, is_up) => nodes.unshift(shape('line', { x1: from[0] + WIDE / 2,
    y1: from[1] + HIGH, x2: to[0] + WIDE / 2, y2: to[1], class: is_up ? 'good' : 'bad' }));
  const box = ([x, y], texts, is_own) => {
    nodes.push(shape('rect', { x, y, width: WIDE, height: HIGH, rx: 12, class: is_own ? 'own' : '' }));
    texts.forEach((text, at) => nodes.push(shape('text', { x: x + 14, y: y + 26 + at * 21,
      class: at ? 'dim' : '' }, text)));
  };
  const here = [middle, own + 6];
  if (is_replica) {
    const up = told.master_link_status === 'up';
    box([middle, 6], [`${shown(told.master_host)}:${told.master_port}`, 'primary', up ?
      `heard ${seconds(Number(told.master_last_io_seconds_ago))} ago` :
      told.master_sync_in_progress === '1' ? `sync: ${told.master_sync_perc ?? '…'} %` :
        'the link is down']);
    link([middle, 6], here, up);
  }
  box(here, ['This server', is_replica ? 'replica' : 'primary',
    `port ${samples.info.Server.tcp_port}, ${replicas.length} replicas`], true);
  replicas.forEach((replica, index) => {
    const place = [GAP + (index % columns) * (WIDE + GAP),
      own + level + 6 + Math.floor(index / columns) * level];
    const behind = Math.max(0, Number(told.master_repl_offset) - Number(replica.offset));
    box(place, [`${shown(replica.ip)}:${replica.port}`, replica.state, `${count(behind)} bytes behind, lag ${
      replica.lag} s`]);
    link(here, place, replica.state === 'online');
  });
  return shape('svg', { viewBox: `0 0 ${width} ${height}`, width, role: 'img',
    'aria-label': `${replicas.length} replicas` }, ...nodes);
}
