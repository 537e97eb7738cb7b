// ioredis through a failover: failover.js PORT NAME, of a Sentinel and of what it watches.
// Says `ready` when it writes, and `moved` when it writes somewhere else.
"use strict";

const assert = require("node:assert/strict");
const Redis = require("ioredis");

const [port, name] = [Number(process.argv[2]), process.argv[3]];
const options = {
  sentinels: [{ host: "127.0.0.1", port }],
  name,
  maxRetriesPerRequest: null,
  sentinelRetryStrategy: () => 50,
  retryStrategy: () => 50,
};

async function main() {
  const primary = new Redis(options);
  const replica = new Redis({ ...options, role: "slave" });
  // What fails is tried again.
  [primary, replica].forEach((client) => client.on("error", () => {}));
  assert.equal(await primary.set("written", "before"), "OK");
  const pause = () => new Promise((resolve) => setTimeout(resolve, 50));
  while ((await replica.get("written")) !== "before") await pause();
  const place = async () => /tcp_port:(\d+)/.exec(await primary.info("server"))[1];
  const first = await place();
  replica.disconnect();
  console.log("ready");
  for (;;) {
    try {
      if ((await place()) !== first && (await primary.set("written", "behind")) === "OK") break;
    } catch (error) {
      // Neither here nor there yet.
    }
    await pause();
  }
  assert.equal(await primary.get("written"), "behind");
  console.log("moved");
  process.exit(0);
}

setTimeout(() => process.exit(2), 60_000);
main();
