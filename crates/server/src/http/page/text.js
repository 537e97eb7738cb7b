// Texts of figures and of what clients stored. Whatever comes from a client reaches the page as the
// text of a node, never as markup.

/** Makes an element: `el('td.number', 'text')`, `el('button', {onclick}, child, ...)`. */
export function el(kind, ...parts) {
  const [tag, ...classes] = kind.split('.');
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(' ');
  for (const part of parts) {
    if (part === null || part === undefined) continue;
    if (part instanceof Node || typeof part !== 'object') node.append(part);
    else if (Array.isArray(part)) node.append(...part);
    else for (const [name, value] of Object.entries(part)) set(node, name, value);
  }
  return node;
}

function set(node, name, value) {
  if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
  else if (name in node && name !== 'list') node[name] = value;
  else node.setAttribute(name, value);
}

/** The same for a picture. */
export function shape(tag, attributes, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** The bytes of a string as the API tells it. */
export function bytesOf(value) {
  if (value !== null && typeof value === 'object' && 'base64' in value) {
    return Uint8Array.from(atob(value.base64), (letter) => letter.charCodeAt(0));
  }
  return new TextEncoder().encode(String(value));
}

/** A string for a query: each byte that is not plain is escaped. */
export function escaped(value) {
  let text = '';
  for (const byte of bytesOf(value)) {
    const letter = String.fromCharCode(byte);
    text += /[A-Za-z0-9_.~-]/.test(letter) ? letter : `%${byte.toString(16).padStart(2, '0')}`;
  }
  return text;
}

// Control letters, and those that turn the direction of others.
const STRANGE = /[\p{C}\p{Zl}\p{Zp}]/u;

/** A string of a client's: as it is where that can be read, else quoted as redis-cli does. */
export function shown(value) {
  if (typeof value === 'string' && value !== '' && !STRANGE.test(value)) return value;
  return quoted(value);
}

export function quoted(value) {
  const named = { 7: '\\a', 8: '\\b', 9: '\\t', 10: '\\n', 13: '\\r', 34: '\\"', 92: '\\\\' };
  if (typeof value === 'string' && !STRANGE.test(value)) {
    return `"${value.replace(/["\\]/g, (letter) => `\\${letter}`)}"`;
  }
  let text = '"';
  for (const byte of bytesOf(value)) {
    if (named[byte]) text += named[byte];
    else if (byte >= 32 && byte < 127) text += String.fromCharCode(byte);
    else text += `\\x${byte.toString(16).padStart(2, '0')}`;
  }
  return `${text}"`;
}

/** A text of many lines may have them. */
export function page(value) {
  const plain = typeof value === 'string' && !STRANGE.test(value.replace(/[\n\t]/g, ''));
  return plain ? value : quoted(value);
}

export function count(number) {
  if (!Number.isFinite(number)) return '–';
  const steps = [[1e9, 'G'], [1e6, 'M'], [1e4, 'k']];
  for (const [step, unit] of steps) {
    if (number >= step) return `${(number / (unit === 'k' ? 1e3 : step)).toFixed(1)} ${unit}`;
  }
  return number >= 100 || Number.isInteger(number) ? Math.round(number).toLocaleString('en') :
    number.toFixed(1);
}

/** So many of what the word says. */
export function counted(number, word) {
  const plural = word.endsWith('x') ? `${word}es` : `${word}s`;
  return `${count(number)} ${number === 1 ? word : plural}`;
}

export function size(bytes) {
  if (!Number.isFinite(bytes)) return '–';
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return `${unit === 0 ? Math.round(bytes) : bytes.toFixed(bytes < 10 ? 2 : 1)} ${units[unit]}`;
}

export function micros(number) {
  if (!Number.isFinite(number)) return '–';
  if (number < 1000) return `${Math.round(number)} µs`;
  return number < 1e6 ? `${(number / 1e3).toFixed(1)} ms` : `${(number / 1e6).toFixed(2)} s`;
}

export function seconds(number) {
  if (!Number.isFinite(number)) return '–';
  if (number < 120) return `${Math.round(number)} s`;
  if (number < 7200) return `${Math.round(number / 60)} min`;
  return number < 172800 ? `${Math.round(number / 3600)} h` : `${Math.round(number / 86400)} days`;
}

/** How long a key lives on. */
export function lifetime(ms) {
  if (ms === null || ms === undefined) return '–';
  return ms < 0 ? '∞' : seconds(ms / 1000);
}

/** `a=1,b=2` as an object. */
export function pairs(text) {
  return Object.fromEntries((text ?? '').split(',').map((pair) => {
    const at = pair.indexOf('=');
    return [pair.slice(0, at), pair.slice(at + 1)];
  }));
}
