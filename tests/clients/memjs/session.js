// A session of MemJS, in the binary protocol, against a running server: session.js PORT [USER PASSWORD].
// Ends with `N passed, N failed`.
"use strict";

const assert = require("node:assert/strict");
const memjs = require("memjs");

const [port, username, password] = process.argv.slice(2);
const client = memjs.Client.create(`127.0.0.1:${port}`, { username, password, retries: 0, timeout: 60 });

async function text(key) {
  const { value } = await client.get(key);
  return value === null ? null : value.toString();
}

async function stores() {
  assert.equal(await client.set("name", "apus", { expires: 100 }), true);
  assert.equal(await text("name"), "apus");
  assert.equal(await client.add("name", "other", {}), false);
  assert.equal(await client.replace("none", "other", {}), false);
  assert.equal(await client.append("name", "!"), true);
  assert.equal(await text("name"), "apus!");
  assert.equal(await text("none"), null);
  const bytes = Buffer.from([0, 13, 10, 255, 0x80, 0x81]);
  assert.equal(await client.set("bytes", bytes, {}), true);
  assert.deepEqual((await client.get("bytes")).value, bytes);
}

async function numbers() {
  assert.deepEqual(await client.increment("number", 5, { initial: 40 }), { success: true, value: 40 });
  assert.deepEqual(await client.increment("number", 2, {}), { success: true, value: 42 });
  assert.deepEqual(await client.decrement("number", 50, {}), { success: true, value: 0 });
}

async function rest() {
  assert.equal(await client.touch("name", 1000), true);
  assert.equal(await client.touch("none", 1000), false);
  assert.equal(await client.delete("name"), true);
  assert.equal(await client.delete("name"), false);
  await new Promise((done, failed) => {
    client.stats((error, _, figures) => {
      if (error || !(Number(figures.curr_items) > 0)) failed(error || new Error(JSON.stringify(figures)));
      else done();
    });
  });
  await client.flush();
  assert.equal(await text("bytes"), null);
}

async function session() {
  await stores();
  await numbers();
  await rest();
  client.quit();
}

session().then(
  () => console.log("3 passed, 0 failed"),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
