// A session of ioredis against a running server: session.js PORT.
"use strict";

const assert = require("node:assert/strict");
const Redis = require("ioredis");

async function session(port) {
  const client = new Redis({ host: "127.0.0.1", port, maxRetriesPerRequest: 0 });
  await client.flushall();
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.set("name", "apus", "EX", 100), "OK");
  assert.equal(await client.get("name"), "apus");
  assert.deepEqual(await client.mset("a", 1, "b", 2), "OK");
  assert.deepEqual(await client.mget("a", "b", "missing"), ["1", "2", null]);
  assert.equal(await client.incrby("a", 41), 42);
  assert.deepEqual(await client.pipeline().set("c", "3").get("c").del("c").exec(), [
    [null, "OK"],
    [null, "3"],
    [null, 1],
  ]);
  await assert.rejects(client.incr("name"), /value is not an integer or out of range/);
  assert.equal(await client.quit(), "OK");
}

session(Number(process.argv[2])).then(
  () => console.log("1 passed, 0 failed"),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
