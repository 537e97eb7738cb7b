// What the server's figures were over the last ten minutes: kept while the page is open, whichever
// view is shown.

import { read } from './api.js';
import { KEPT } from './charts.js';
import { pairs } from './text.js';

const EVERY_MS = 2000;
const KINDS = [
  ['data', 'used_memory_dataset'], ['clients', 'mem_clients_normal'],
  ['replication', 'mem_total_replication_buffers'], ['scripts', 'used_memory_scripts'],
  ['log', 'mem_aof_buffer'],
];

/** The last figures, and the series. */
export const samples = { info: null, latency: null, commands: [], series: {}, failure: null };
const listeners = new Set();

/** Calls back after each look; returns what ends that. */
export function follow(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Looks at the server for ever. A page that nobody sees looks seldom. */
export async function watch() {
  let before = null;
  for (;;) {
    try {
      const [info, latency] = await Promise.all([read('info'), read('latency')]);
      const now = { at: performance.now() / 1000, info, latency };
      note(now, before);
      before = now;
      Object.assign(samples, { info, latency, failure: null });
    } catch (failure) {
      samples.failure = failure;
    }
    for (const listener of listeners) listener();
    await new Promise((done) => { setTimeout(done, document.hidden ? 5 * EVERY_MS : EVERY_MS); });
  }
}

function push(name, value) {
  const values = samples.series[name] ??= [];
  values.push(value);
  if (values.length > KEPT) values.shift();
}

function note(now, before) {
  const { info } = now;
  const memory = info.Memory;
  for (const [name, field] of KINDS) push(`memory ${name}`, Number(memory[field] ?? 0));
  const told = KINDS.reduce((sum, [, field]) => sum + Number(memory[field] ?? 0), 0);
  push('memory other', Math.max(0, Number(memory.used_memory) - told));
  push('clients connected', Number(info.Clients.connected_clients));
  push('clients blocked', Number(info.Clients.blocked_clients));
  // After a restart all counts begin again.
  const is_same = before && before.info.Server.run_id === info.Server.run_id;
  if (!is_same) return;
  const took = now.at - before.at;
  const rate = (section, field) =>
    Math.max(0, Number(info[section][field]) - Number(before.info[section][field])) / took;
  push('operations', rate('Stats', 'total_commands_processed'));
  push('network in', rate('Stats', 'total_net_input_bytes'));
  push('network out', rate('Stats', 'total_net_output_bytes'));
  const hits = rate('Stats', 'keyspace_hits');
  push('hits', 100 * hits / (hits + rate('Stats', 'keyspace_misses')));
  push('cpu', 100 * (rate('CPU', 'used_cpu_user') + rate('CPU', 'used_cpu_sys')));
  for (const [name, line] of Object.entries(info.Workers)) {
    if (!/^worker_\d+$/.test(name) || !before.info.Workers[name]) continue;
    const busy = Number(pairs(line).busy_us) - Number(pairs(before.info.Workers[name]).busy_us);
    push(name, Math.min(100, Math.max(0, busy) / took / 1e4));
  }
  noteLatency(now.latency, before.latency, took);
}

function noteLatency(now, before, took) {
  const all = [];
  samples.commands = [];
  for (const [name, { buckets, micros }] of Object.entries(now.commands)) {
    const old = before.commands[name] ?? { buckets: [], micros: 0 };
    const counted = new Map(old.buckets);
    const changed = [];
    for (const [bucket, count] of buckets) {
      const more = count - (counted.get(bucket) ?? 0);
      if (more <= 0) continue;
      changed[bucket] = more;
      all[bucket] = (all[bucket] ?? 0) + more;
    }
    const calls = changed.reduce((sum, more) => sum + more, 0);
    if (calls === 0) continue;
    samples.commands.push({ name, rate: calls / took, mean: (micros - old.micros) / calls,
      p50: percentile(changed, 0.5, now.limits_us), p99: percentile(changed, 0.99, now.limits_us),
      micros: micros - old.micros });
  }
  samples.commands.sort((one, other) => other.micros - one.micros);
  for (const [name, part] of [['p50', 0.5], ['p99', 0.99], ['p99.9', 0.999]]) {
    push(name, percentile(all, part, now.limits_us));
  }
}

/** The limit of the bucket below which so much of the calls lie. */
function percentile(buckets, part, limits) {
  const total = buckets.reduce((sum, more) => sum + more, 0);
  if (total === 0) return 0;
  let seen = 0;
  for (const bucket in buckets) {
    seen += buckets[bucket];
    if (seen >= total * part) return limits[bucket];
  }
  return limits[limits.length - 1];
}
