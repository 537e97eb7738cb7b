// What real users' libraries do with scripts, against a running server: users.js PORT.
// BullMQ's queues with a day's mixture of jobs, Redlock, rate limiters. Ends with `N passed, N failed`.
"use strict";

const assert = require("node:assert/strict");
const { FlowProducer, Queue, QueueEvents, Worker } = require("bullmq");
const Redis = require("ioredis");
const { RateLimiterRedis } = require("rate-limiter-flexible");
const Redlock = require("redlock");

const connection = { host: "127.0.0.1", port: Number(process.argv[2]), maxRetriesPerRequest: null };
const PATIENCE = 30_000;

async function until(what, holds) {
  const end = Date.now() + PATIENCE;
  while (!(await holds())) {
    assert.ok(Date.now() < end, `never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// A queue with four workers that run eight jobs each, and what they saw.
class Works {
  constructor(name, process, options = {}) {
    this.queue = new Queue(name, { connection });
    this.events = new QueueEvents(name, { connection });
    this.failures = 0;
    this.workers = Array.from({ length: 4 }, () => {
      const worker = new Worker(name, process, { connection, concurrency: 8, ...options });
      worker.on("failed", () => (this.failures += 1));
      return worker;
    });
  }

  async finished(job) {
    return job.waitUntilFinished(this.events, PATIENCE);
  }

  async close() {
    await Promise.all(this.workers.map((worker) => worker.close()));
    await this.events.close();
    await this.queue.obliterate({ force: true });
    await this.queue.close();
  }
}

async function jobsRunOnce() {
  const runs = new Map();
  const works = new Works("plain", async (job) => runs.set(job.id, 1 + (runs.get(job.id) ?? 0)));
  const jobs = Array.from({ length: 500 }, (_, number) => ({ name: "job", data: { number } }));
  await Promise.all(jobs.map(({ name, data }) => works.queue.add(name, data)));
  await works.queue.addBulk(jobs);
  await until("all are done", async () => (await works.queue.getCompletedCount()) === 1000);
  assert.equal(runs.size, 1000);
  assert.ok([...runs.values()].every((count) => count === 1), "a job ran twice");
  assert.equal((await works.queue.clean(0, 5000, "completed")).length, 1000);
  await works.close();
}

async function delaysRetriesPrioritiesAndProgress() {
  const works = new Works("kinds", async (job) => {
    if (job.name === "fails" && job.attemptsMade < 2) throw new Error("not yet");
    if (job.name === "progresses") await job.updateProgress(50);
    return job.name;
  });
  await works.events.waitUntilReady();
  const began = Date.now();
  const delayed = await works.queue.add("delayed", {}, { delay: 300 });
  const backoff = { type: "fixed", delay: 50 };
  const failing = await works.queue.add("fails", {}, { attempts: 3, backoff });
  const ranked = [3, 1, 2].map((priority) => works.queue.add("ranked", {}, { priority }));
  const progressing = await works.queue.add("progresses", {});
  assert.equal(await works.finished(progressing), "progresses");
  assert.equal(await works.finished(failing), "fails");
  assert.equal((await works.queue.getJob(failing.id)).attemptsMade, 3);
  assert.equal(works.failures, 2);
  await works.finished(delayed);
  assert.ok(Date.now() - began >= 295, "a delayed job came too early");
  for (const job of await Promise.all(ranked)) {
    await until("it is done", () => job.isCompleted());
  }
  await works.close();
}

async function repeatedJobs() {
  const works = new Works("repeated", async (job) => job.name);
  await works.queue.upsertJobScheduler("often", { every: 100 }, { name: "tick", data: {} });
  await until("it ran three times", async () => (await works.queue.getCompletedCount()) >= 3);
  assert.equal((await works.queue.getJobSchedulers()).length, 1);
  await works.queue.removeJobScheduler("often");
  assert.equal((await works.queue.getJobSchedulers()).length, 0);
  await works.close();
}

async function parentsWaitForChildren() {
  const works = new Works("family", async (job) => job.data.number ?? "parent");
  await works.events.waitUntilReady();
  const flow = new FlowProducer({ connection });
  const child = (number) => ({ name: "child", queueName: "family", data: { number } });
  const children = [1, 2, 3].map(child);
  const tree = await flow.add({ name: "parent", queueName: "family", data: {}, children });
  assert.equal(await works.finished(tree.job), "parent");
  const values = Object.values(await tree.job.getChildrenValues());
  assert.deepEqual(values.sort(), [1, 2, 3]);
  await flow.close();
  await works.close();
}

async function jobsWithOneIdAreOneJob() {
  const works = new Works("unique", async () => "done");
  await works.queue.pause();
  for (let turn = 0; turn < 2; turn += 1) {
    await works.queue.add("same", {}, { jobId: "only-one" });
    await works.queue.add("like", {}, { deduplication: { id: "like", ttl: 60_000 } });
  }
  assert.equal((await works.queue.getJobs(["waiting", "paused"])).length, 2);
  await works.queue.resume();
  await until("both are done", async () => (await works.queue.getCompletedCount()) === 2);
  await works.close();
}

async function limitedRates() {
  const times = [];
  const limiter = { max: 5, duration: 300 };
  const works = new Works("limited", async () => times.push(Date.now()), { limiter });
  await works.queue.addBulk(Array.from({ length: 15 }, () => ({ name: "job", data: {} })));
  await until("all are done", async () => (await works.queue.getCompletedCount()) === 15);
  assert.ok(Math.max(...times) - Math.min(...times) >= 550, "the limit was not kept");
  await works.close();
}

async function locksExclude() {
  const client = new Redis(connection);
  const redlock = new Redlock([client], { retryCount: -1, retryDelay: 5 });
  let [inside, counter] = [0, 0];
  const enter = async () => {
    const lock = await redlock.lock("lock", 5000);
    inside += 1;
    assert.equal(inside, 1, "two are inside");
    const seen = counter;
    await new Promise((resolve) => setTimeout(resolve, 1));
    counter = seen + 1;
    inside -= 1;
    await lock.unlock();
  };
  await Promise.all(Array.from({ length: 50 }, enter));
  assert.equal(counter, 50);
  const lock = await redlock.lock("lock", 100);
  await lock.extend(5000);
  assert.ok((await client.pttl("lock")) > 1000);
  await lock.unlock();
  assert.equal(await client.exists("lock"), 0);
  await client.quit();
}

async function limitersCount() {
  const client = new Redis(connection);
  const limiter = new RateLimiterRedis({ storeClient: client, points: 10, duration: 60 });
  const tries = Array.from({ length: 30 }, () => limiter.consume("somebody"));
  const results = await Promise.allSettled(tries);
  assert.equal(results.filter(({ status }) => status === "fulfilled").length, 10);
  await client.quit();
}

async function main() {
  const sessions = [
    jobsRunOnce, delaysRetriesPrioritiesAndProgress, repeatedJobs, parentsWaitForChildren,
    jobsWithOneIdAreOneJob, limitedRates, locksExclude, limitersCount,
  ];
  let failed = 0;
  for (const session of sessions) {
    try {
      await session();
    } catch (error) {
      failed += 1;
      console.error(`${session.name}:`, error);
    }
  }
  console.log(`${sessions.length - failed} passed, ${failed} failed`);
  process.exit(failed === 0 ? 0 : 1);
}

main();
