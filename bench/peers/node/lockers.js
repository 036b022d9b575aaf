// One connection to each node, a script to all of them, polls when refused.
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import Redlock, { ExecutionError } from "redlock";
import { createRedlock, IoredisAdapter } from "redlock-universal";

const TTL_MS = 30_000;
const TUNED = { commandTimeout: 500 };

function connections(nodes, options) {
  return nodes.map((node) => {
    const [host, port] = node.split(":");
    const client = new Redis(Number(port), host, options);
    client.on("error", () => {}); // A dead node is part of the measurement.
    return client;
  });
}

export function nodeRedlock(nodes, tuned) {
  const redlock = new Redlock(connections(nodes, tuned ? TUNED : {}), tuned ? { retryCount: 0 } : {});
  return {
    // Between its own retries it keeps the nodes that it has got: two that share them wait for the
    // ttl. Tuned, it gives up after one try, which frees them, and tries again.
    async acquire(name) {
      if (!tuned) return redlock.acquire([name], TTL_MS);
      for (;;) {
        try {
          return await redlock.acquire([name], TTL_MS);
        } catch (error) {
          if (!(error instanceof ExecutionError)) throw error;
          await sleep(1 + Math.random() * 3);
        }
      }
    },
    release: (lock) => lock.release(),
    extend: (lock) => lock.extend(TTL_MS),
  };
}

export function redlockUniversal(nodes, tuned) {
  const adapters = connections(nodes, tuned ? TUNED : {}).map((client) => new IoredisAdapter(client));
  const settings = tuned ? { retryAttempts: 10_000, retryDelay: 2 } : {};
  return {
    async acquire(key) {
      const lock = createRedlock({ adapters, key, ttl: TTL_MS, ...settings });
      return { lock, handle: await lock.acquire() };
    },
    async release({ lock, handle }) {
      if (!(await lock.release(handle))) throw new Error("it was no longer held");
    },
    async extend(held) {
      if (!(await held.lock.extend(held.handle, TTL_MS))) throw new Error("it was not extended");
      return held;
    },
  };
}
