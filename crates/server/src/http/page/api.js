// The way to the server: requests with the password, if one was asked for.

let authorization = sessionStorage.getItem('apus-authorization');
let asking = null;

/** What went wrong with a request. */
export class Failure extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Reads what stands behind `/api/`; asks for a password where one is needed. */
export async function read(path, options = {}) {
  const used = authorization;
  const headers = used ? { Authorization: used } : {};
  let answer;
  try {
    answer = await fetch(`/api/${path}`, { ...options, headers, credentials: 'omit' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Failure(0, 'The server does not answer.');
  }
  const body = await answer.json().catch(() => ({ error: answer.statusText }));
  if (answer.status === 401) {
    // Another request may have asked for the password meanwhile.
    if (used === authorization) await login(used ? 'Wrong name or password.' : '');
    return read(path, options);
  }
  if (!answer.ok) throw new Failure(answer.status, body.error ?? answer.statusText);
  return body;
}

/** Runs a command of the console. */
export async function run(line, database) {
  const answer = await read(`command?db=${database}`, { method: 'POST', body: line });
  return answer.reply;
}

function login(why) {
  asking ??= new Promise((done) => {
    const dialog = document.getElementById('login');
    const field = (name) => document.getElementById(`login-${name}`);
    field('error').textContent = why;
    const over = () => {
      const words = new TextEncoder().encode(`${field('name').value}:${field('password').value}`);
      authorization = `Basic ${btoa(String.fromCharCode(...words))}`;
      sessionStorage.setItem('apus-authorization', authorization);
      asking = null;
      done();
    };
    dialog.addEventListener('close', over, { once: true });
    dialog.showModal();
    field('password').focus();
  });
  return asking;
}
