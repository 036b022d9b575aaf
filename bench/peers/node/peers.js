// The Node.js peers of `cargo xtask bench peers`: node-redlock and redlock-universal, both with
// ioredis.
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Job, now, pairs, report } from "./protocol.js";
import { nodeRedlock, redlockUniversal } from "./lockers.js";

const PEERS = { "node-redlock": nodeRedlock, "redlock-universal": redlockUniversal };

async function serve() {
  const { peer, settings, nodes } = pairs(process.argv.slice(2));
  if (!PEERS[peer]) throw new Error(`there is no peer "${peer}" here`);
  const begun = now();
  const locker = PEERS[peer](nodes.split(","), settings === "tuned");
  const first = await locker.acquire(`first:${begun}`);
  console.log(`ready ${now() - begun}`);
  await locker.release(first);
  for await (const line of createInterface({ input: process.stdin })) {
    const job = new Job(line);
    await (job.kind === "hold" ? hold(locker, job) : work(locker, job));
  }
  process.exit(0);
}

async function work(locker, job) {
  const done = { holds: [], failed: 0, renewals: 0, error: "" };
  const before = process.cpuUsage();
  const end = now() + job.nanos;
  const cycles = async (task) => {
    for (let cycle = 0; now() < end; cycle++) {
      const called = now();
      try {
        const lock = await locker.acquire(job.name(task, cycle));
        const acquired = now();
        if (job.holdMs > 0) await sleep(job.holdMs);
        const released = now();
        await locker.release(lock);
        done.holds.push([task, called, acquired, released, now()]);
      } catch (error) {
        fail(done, error);
        await sleep(0); // A client that fails at once must not keep the others from their turn.
      }
    }
  };
  await each(job.tasks, cycles);
  report(done, process.cpuUsage(before));
}

// Keeps many locks, each extended by a call, as `using` does it.
async function hold(locker, job) {
  const done = { holds: [], failed: 0, renewals: 0, error: "" };
  const locks = [];
  const numbers = (task) => Array.from({ length: job.locks }, (_, i) => i).filter((i) => i % job.tasks === task);
  await each(job.tasks, async (task) => {
    for (const number of numbers(task)) locks[number] = await locker.acquire(job.name(task, number));
  });
  const before = process.cpuUsage();
  await each(job.tasks, async (task) => {
    for (const number of numbers(task)) {
      try {
        locks[number] = await locker.extend(locks[number]);
        done.renewals++;
      } catch (error) {
        fail(done, error);
      }
    }
  });
  const spent = process.cpuUsage(before);
  await each(job.tasks, async (task) => {
    for (const number of numbers(task)) await locker.release(locks[number]);
  });
  report(done, spent);
}

const each = (tasks, run) => Promise.all(Array.from({ length: tasks }, (_, task) => run(task)));

function fail(done, error) {
  done.failed++;
  done.error ||= String(error?.message ?? error);
}

serve().catch((error) => {
  console.error(error);
  process.exit(1);
});
