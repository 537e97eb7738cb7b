// Sessions of ioredis against a running server: session.js PORT SOCKET|- LEVEL.
// LEVEL is `newest` where the server knows the commands of Redis 8.10. Ends with `N passed, N failed`.
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const Redis = require("ioredis");

const [port, socket, level] = [Number(process.argv[2]), process.argv[3], process.argv[4]];
const address = { host: "127.0.0.1", port, maxRetriesPerRequest: 0 };

async function strings(client) {
  assert.equal(await client.set("name", "apus", "EX", 100), "OK");
  assert.equal(await client.get("name"), "apus");
  assert.equal(await client.set("name", "swift", "NX"), null);
  assert.equal(await client.set("name", "swift", "XX", "GET"), "apus");
  assert.equal(await client.getex("name", "EX", 10), "swift");
  assert.equal(await client.mset({ a: 1, b: 2 }), "OK");
  assert.equal(await client.msetnx("b", 1, "c", 2), 0);
  assert.deepEqual(await client.mget("a", "b", "missing"), ["1", "2", null]);
  assert.equal(await client.incr("a"), 2);
  assert.equal(await client.incrby("a", 40), 42);
  assert.equal(await client.decr("a"), 41);
  assert.equal(await client.decrby("a", 41), 0);
  assert.equal(await client.incrbyfloat("a", 0.5), "0.5");
  assert.equal(await client.append("name", "s"), 6);
  assert.equal(await client.setrange("name", 0, "SW"), 6);
  assert.equal(await client.getrange("name", 0, 2), "SWi");
  assert.equal(await client.substr("name", 0, 1), "SW");
  assert.equal(await client.strlen("name"), 6);
  assert.equal(await client.getset("name", "x"), "SWifts");
  assert.equal(await client.getdel("name"), "x");
  assert.equal(await client.setnx("name", "y"), 1);
  assert.equal(await client.setex("name", 10, "y"), "OK");
  assert.equal(await client.psetex("name", 10000, "y"), "OK");
  await client.mset("one", "ohmytext", "two", "mynewtext");
  assert.equal(await client.lcs("one", "two"), "mytext");
  await assert.rejects(client.incr("name"), /^ReplyError: ERR value is not an integer or out of range$/);
}

async function newest(client) {
  await client.flushdb();
  assert.equal(await client.call("MSETEX", 2, "a", "1", "b", "2", "EX", 100), 1);
  const digest = await client.call("DIGEST", "a");
  assert.match(digest, /^[0-9a-f]{16}$/);
  assert.equal(await client.call("SET", "a", "2", "IFEQ", "9"), null);
  assert.equal(await client.call("SET", "a", "2", "IFDEQ", digest), "OK");
  assert.equal(await client.call("DELEX", "a", "IFNE", "2"), 0);
  assert.equal(await client.call("DELEX", "a", "IFEQ", "2"), 1);
  assert.deepEqual(await client.call("INCREX", "n", "BYINT", 5, "UBOUND", 7), [5, 5]);
}

async function keys(client) {
  await client.flushdb();
  const pipeline = client.pipeline();
  for (let number = 0; number < 3000; number++) pipeline.set(`key:${number}`, number);
  assert.ok((await pipeline.exec()).every(([error, reply]) => error === null && reply === "OK"));
  assert.equal(await client.dbsize(), 3000);
  const seen = new Set();
  for await (const names of client.scanStream({ match: "key:*", count: 100 })) for (const name of names) seen.add(name);
  assert.equal(seen.size, 3000);
  const binary = new Set();
  for await (const names of client.scanBufferStream({ match: "key:1?" })) for (const name of names) binary.add(String(name));
  assert.equal(binary.size, 10);
  assert.equal((await client.keys("key:1?")).length, 10);
  assert.match(await client.randomkey(), /^key:/);
  assert.equal(await client.exists("key:1", "key:1", "missing"), 2);
  assert.equal(await client.touch("key:1", "missing"), 1);
  assert.equal(await client.type("key:1"), "string");
  assert.equal(await client.rename("key:1", "renamed"), "OK");
  assert.equal(await client.renamenx("renamed", "key:2"), 0);
  assert.equal(await client.copy("renamed", "copied", "REPLACE"), 1);
  assert.equal(await client.move("copied", 1), 1);
  assert.equal(await client.del("renamed", "missing"), 1);
  assert.equal(await client.unlink("key:2", "key:3"), 2);
  assert.equal(await client.expire("key:4", 100, "NX"), 1);
  assert.equal(await client.pexpire("key:4", 200000, "GT"), 1);
  assert.ok((await client.pttl("key:4")) > 100000 && (await client.ttl("key:4")) > 100);
  assert.equal(await client.expireat("key:4", 4102444800), 1);
  assert.equal(await client.expiretime("key:4"), 4102444800);
  assert.equal(await client.pexpireat("key:4", 4102444800001), 1);
  assert.equal(await client.pexpiretime("key:4"), 4102444800001);
  assert.equal(await client.persist("key:4"), 1);
  assert.equal(await client.object("ENCODING", "key:4"), "int");
  assert.equal(await client.swapdb(0, 1), "OK");
  assert.equal(await client.dbsize(), 1);
  assert.equal(await client.flushall("ASYNC"), "OK");
}

async function binary(client) {
  const key = Buffer.from([0, 255, 13, 10]);
  for (const size of [0, 70000, 1 << 20]) {
    const value = crypto.randomBytes(size);
    assert.equal(await client.set(key, value), "OK");
    assert.ok(value.equals(await client.getBuffer(key)));
    const payload = await client.dumpBuffer(key);
    assert.equal(await client.restore("restored", 0, payload, "REPLACE"), "OK");
    assert.ok(value.equals(await client.getBuffer("restored")));
  }
  await assert.rejects(client.restore("bad", 0, "payload"), /payload version or checksum/);
}

async function pipelines(client) {
  assert.deepEqual(await client.pipeline().set("c", "3").get("c").del("c").exec(), [[null, "OK"], [null, "3"], [null, 1]]);
  const mixed = await client.pipeline().set("c", "x").incr("c").get("c").exec();
  assert.match(String(mixed[1][0]), /not an integer/);
  assert.deepEqual(mixed[2], [null, "x"]);
  const automatic = new Redis({ ...address, enableAutoPipelining: true });
  const replies = await Promise.all(Array.from({ length: 1000 }, () => automatic.incr("automatic")));
  assert.deepEqual(replies, Array.from({ length: 1000 }, (_, index) => index + 1));
  automatic.disconnect();
}

async function connection(client) {
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.ping("hello"), "hello");
  assert.equal(await client.echo("hello"), "hello");
  const named = new Redis({ host: "127.0.0.1", port, db: 3, connectionName: "session", lazyConnect: true });
  assert.equal(named.status, "wait");
  await named.connect();
  assert.equal(named.status, "ready");
  assert.equal(await named.client("GETNAME"), "session");
  const id = await named.client("ID");
  assert.match(await client.client("LIST", "ID", id), /name=session .*db=3 .*lib-name=ioredis/);
  const ready = new Promise((resolve) => named.once("ready", resolve));
  assert.equal(await client.client("KILL", "ID", id), 1);
  await ready;
  assert.match(await named.client("INFO"), /name=session .*db=3 /);
  assert.notEqual(await named.client("ID"), id);
  assert.equal(await client.client("PAUSE", 1, "WRITE"), "OK");
  assert.equal(await client.client("UNPAUSE"), "OK");
  assert.equal(await client.client("NO-EVICT", "ON"), "OK");
  assert.equal(await named.select(4), "OK");
  assert.equal(await named.set("four", 4), "OK");
  await assert.rejects(named.select(99), /DB index is out of range/);
  assert.equal(await named.call("RESET"), "RESET");
  assert.equal(await named.quit(), "OK");
}

async function server(client) {
  assert.equal((await client.time()).length, 2);
  assert.match(await client.info(), /redis_version:/);
  assert.deepEqual(await client.config("GET", "maxmemory"), ["maxmemory", "0"]);
  assert.equal(await client.config("SET", "slowlog-log-slower-than", 0), "OK");
  await client.get("slow");
  assert.ok((await client.slowlog("LEN")) > 0 && (await client.slowlog("GET", 1)).length === 1);
  assert.equal(await client.config("SET", "slowlog-log-slower-than", 10000), "OK");
  assert.equal(await client.slowlog("RESET"), "OK");
  assert.equal(await client.config("RESETSTAT"), "OK");
  assert.deepEqual((await client.command("INFO", "get"))[0].slice(0, 2), ["get", 2]);
  assert.deepEqual(await client.command("GETKEYS", "MSET", "a", 1, "b", 2), ["a", "b"]);
  assert.ok((await client.command("COUNT")) > 50);
  assert.ok((await client.lastsave()) > 0);
  assert.equal((await client.role())[0], "master");
  await client.set("sized", "x".repeat(1000));
  assert.ok((await client.memory("USAGE", "sized")) > 1000);
  assert.deepEqual(await client.latency("LATEST"), []);
  assert.equal(await client.wait(0, 1), 0);
  const monitor = await client.monitor();
  const seen = new Promise((resolve) => monitor.once("monitor", (_, words) => resolve(words)));
  await client.set("watched", "value");
  assert.deepEqual((await seen).map((word) => word.toLowerCase()), ["set", "watched", "value"]);
  monitor.disconnect();
}

async function login(client) {
  assert.equal(await client.config("SET", "requirepass", "secret"), "OK");
  const refused = new Redis({ ...address, retryStrategy: null, lazyConnect: true });
  refused.on("error", () => {});
  await assert.rejects(refused.connect().then(() => refused.ping()), /NOAUTH|closed/);
  refused.disconnect();
  const trusted = new Redis({ ...address, username: "default", password: "secret", db: 5 });
  assert.equal(await trusted.set("five", 5), "OK");
  assert.equal(await trusted.auth("secret"), "OK");
  await assert.rejects(trusted.auth("wrong"), /WRONGPASS/);
  trusted.disconnect();
  assert.equal(await client.config("SET", "requirepass", ""), "OK");
}

async function session() {
  const client = new Redis(address);
  await client.flushall();
  await strings(client);
  await keys(client);
  await binary(client);
  await pipelines(client);
  await connection(client);
  await server(client);
  await login(client);
  if (level === "newest") await newest(client);
  if (socket !== "-") {
    const local = new Redis({ path: socket, db: 2 });
    assert.equal(await local.set("local", "yes"), "OK");
    local.disconnect();
  }
  assert.equal(await client.quit(), "OK");
}

session().then(
  () => console.log("1 passed, 0 failed"),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
