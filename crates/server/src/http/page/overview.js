// The overview: what the server does now and did in the last ten minutes.

import { Chart } from './charts.js';
import { follow, samples } from './samples.js';
import { count, el, micros, pairs, seconds, shown, size } from './text.js';

const percent = (number) => (Number.isFinite(number) ? `${number.toFixed(number < 10 ? 1 : 0)} %` : '–');
const bytesPerSecond = (number) => `${size(number)}/s`;

export function overview(main) {
  const tiles = {};
  const tile = (name, label) => {
    tiles[name] = { figure: el('div.figure', '–'), more: el('div.more') };
    return el('div.card.tile', el('div.label', label), tiles[name].figure, tiles[name].more);
  };
  const charts = {
    operations: new Chart('Operations per second', count),
    latency: new Chart('Latency of commands', micros),
    memory: new Chart('Memory by kind', size, { stacked: true, base: 2 }),
    cpu: new Chart('Workers: time busy', percent),
    clients: new Chart('Clients', count),
    network: new Chart('Network', bytesPerSecond, { base: 2 }),
  };
  const commands = el('tbody');
  const databases = el('tbody');
  const regressed = el('tbody');
  const sizes = el('tbody');
  const heads = (...names) => el('thead', el('tr', names.map((name, at) =>
    el(at ? 'th.number' : 'th', name))));
  main.replaceChildren(
    el('h1', 'Overview'),
    el('div.tiles', tile('operations', 'Operations / s'), tile('latency', 'p99 latency'),
      tile('memory', 'Memory'), tile('keys', 'Keys'), tile('clients', 'Clients'),
      tile('hits', 'Hit rate')),
    el('div.grid', Object.values(charts).map((chart) => chart.node)),
    el('div.grid',
      el('section.card', el('h2', 'Commands, by time spent'), el('div.scroll', el('table',
        heads('Command', 'Per second', 'Mean', 'p50', 'p99'), commands)),
        el('h2', { style: 'margin-top: 1rem' }, 'Slower than their best'), el('div.scroll', el('table',
          heads('Command', 'Calls', 'p99', 'Best p99', 'Times'), regressed))),
      el('section.card', el('h2', 'Databases'), el('div.scroll', el('table',
        heads('Database', 'Keys', 'With expiry', 'Mean expiry'), databases)),
        el('h2', { style: 'margin-top: 1rem' }, 'Sizes of keys'), el('div.scroll', el('table',
          heads('Type', 'Keys', 'Half are below', 'All are below'), sizes)))));
  const draw = () => {
    if (!samples.info) return;
    drawTiles(tiles);
    drawCharts(charts);
    fill(commands, samples.commands.slice(0, 12).map((one) => [one.name.replace('|', ' '),
      count(one.rate), micros(one.mean), micros(one.p50), micros(one.p99)]), 'No command ran just now');
    fill(regressed, (samples.latency.regressed ?? []).map((one) => [one.command.replace('|', ' '),
      one.size, micros(one.p99_us), micros(one.best_p99_us), count(one.regressions)]),
    'No command strays now');
    fill(databases, databaseRows(samples.info.Keyspace), 'There are no keys');
    fill(sizes, sizeRows(samples.info.Keysizes), 'There are no keys');
  };
  draw();
  return follow(draw);
}

const last = (name) => samples.series[name]?.at(-1) ?? NaN;

function drawTiles(tiles) {
  const { info } = samples;
  const put = (name, figure, more) => {
    tiles[name].figure.textContent = figure;
    tiles[name].more.textContent = more;
  };
  put('operations', count(last('operations')), `${count(Number(info.Stats.total_commands_processed))} in all`);
  put('latency', micros(last('p99')), `p50 ${micros(last('p50'))}`);
  const limit = Number(info.Memory.maxmemory);
  put('memory', size(Number(info.Memory.used_memory)), limit ? `of ${size(limit)}, RSS ${
    size(Number(info.Memory.used_memory_rss))}` : `RSS ${size(Number(info.Memory.used_memory_rss))}`);
  const keys = Object.values(info.Keyspace ?? {}).map((line) => Number(pairs(line).keys));
  put('keys', count(keys.reduce((sum, one) => sum + one, 0)),
    `${count(Number(info.Stats.expired_keys))} expired, ${count(Number(info.Stats.evicted_keys))} evicted`);
  put('clients', count(last('clients connected')), `${count(last('clients blocked'))} blocked`);
  put('hits', percent(last('hits')), `CPU ${percent(last('cpu'))}, up ${
    seconds(Number(info.Server.uptime_in_seconds))}`);
}

function drawCharts(charts) {
  const series = (prefix, names) => names.map((name) =>
    ({ name, values: samples.series[prefix + name] ?? [] }));
  charts.operations.draw([{ name: 'now', values: samples.series.operations ?? [] }]);
  charts.latency.draw(series('', ['p50', 'p99', 'p99.9']));
  charts.memory.draw(series('memory ', ['data', 'clients', 'replication', 'scripts', 'log', 'other']));
  const workers = Object.keys(samples.series).filter((name) => name.startsWith('worker_'));
  charts.cpu.draw(workers.map((name) => ({ name: name.replace('_', ' '), values: samples.series[name] })));
  charts.clients.draw(series('clients ', ['connected', 'blocked']));
  charts.network.draw(series('network ', ['in', 'out']));
}

function databaseRows(keyspace) {
  return Object.entries(keyspace ?? {}).map(([name, line]) => {
    const { keys, expires, avg_ttl } = pairs(line);
    const mean = Number(avg_ttl);
    return [name, count(Number(keys)), count(Number(expires)), mean ? seconds(mean / 1000) : '–'];
  });
}

/** `db0_distrib_lists_items:1=3,2=4` says how many keys have at least so many elements. */
function sizeRows(sizes) {
  return Object.entries(sizes ?? {}).map(([name, line]) => {
    const [database, what] = name.split('_distrib_');
    const steps = line.split(',').map((pair) => pair.split('='));
    const total = steps.reduce((sum, [, keys]) => sum + Number(keys), 0);
    let seen = 0;
    const half = steps.find(([, keys]) => { seen += Number(keys); return seen * 2 >= total; });
    return [`${database} ${what.replace('_', ', ')}`, count(total), below(half[0]),
      below(steps[steps.length - 1][0])];
  });
}

/** A step holds what is below its double. */
function below(step) {
  const unit = step.slice(-1).match(/[KMGTPE]/) ? step.slice(-1) : '';
  const low = Number(unit ? step.slice(0, -1) : step);
  return low === 0 ? '0' : `${low * 2}${unit}`;
}

function fill(body, rows, otherwise) {
  body.replaceChildren(...rows.map((cells) => el('tr', cells.map((cell, at) =>
    el(at ? 'td.number' : 'td', shown(cell))))));
  if (!rows.length) body.append(el('tr', el('td.dim', { colSpan: 5 }, otherwise)));
}
