// A client of Tenure's lock service: one file, nothing but Node's `fetch`.
//
//     import { withLock } from './tenure-lock.mjs';
//
//     await withLock(['http://127.0.0.1:7420'], 'import', { ttl: 30_000, wait: 60_000 }, async (lock) => {
//       for (const row of rows) {
//         lock.check();                                        // throws once the lock is not ours
//         await store(row, lock.fence, { signal: lock.signal }); // the store refuses smaller fences
//       }
//     });
//
// The lock is extended in the background. It is ours until `validUntil`, which is counted from
// before the request was sent: an answer can be held up on its way. `signal` is aborted when it is
// lost. A pause between `check` and its effect cannot be ruled out; that is what the fence is for.

// One call waits no longer than this: many proxies close a connection that is silent for a minute.
const WAIT_PER_CALL = 30_000;

// The pause before asking again when no instance could help.
const PAUSE = 200;

// By a clock that nobody sets.
const now = () => performance.now();
const sleep = (time) => new Promise((wake) => setTimeout(wake, time));

// The service said no. `problem` has its reasons, by RFC 9457; `type` is stable.
export class Refused extends Error {
  constructor(problem) {
    super(problem.detail);
    this.problem = problem;
    this.type = String(problem.type ?? '').replace('urn:tenure:', '');
  }
}

// No instance could help: unreachable, about to end, or without a majority of its nodes.
export class Unavailable extends Error {}

// The lock is no longer ours: stop the work that it protects.
export class LockLost extends Error {}

export async function withLock(urls, name, options, work) {
  const lock = await Lock.acquire(urls, name, options);
  let result;
  try {
    result = await work(lock);
    lock.check();
  } finally {
    await lock.release();
  }
  return result;
}

export class Lock {
  #urls; #name; #ttl; #headers; #token; #timers = []; #lost = new AbortController(); #released = false;
  fence; validUntil = 0;

  // Waits in line for at most `wait` ms; throws Refused with type `contended` after that. Without an
  // answer nobody knows who has the lock, so the same question is sent again, with the same key:
  // whoever got the lock by it gets it again, and does not wait for itself.
  static async acquire(urls, name, { ttl = 30_000, wait = 0, label, callerToken } = {}) {
    const lock = new Lock();
    [lock.#urls, lock.#name, lock.#ttl] = [[...urls], name, ttl];
    lock.#headers = { 'Content-Type': 'application/json' };
    if (callerToken) lock.#headers.Authorization = `Bearer ${callerToken}`;
    const deadline = now() + wait;
    let key, left;
    while (lock.validFor() <= 0) { // An answer that came too late is no lock.
      if (!key) {
        left = Math.round(Math.max(0, Math.min(deadline - now(), WAIT_PER_CALL)));
        key = crypto.randomUUID();
      }
      const body = { name, ttl_ms: ttl, wait_ms: left, label };
      try {
        lock.#keep(await lock.#call('/v1/acquire', body, left + 5_000, { 'Idempotency-Key': key }));
      } catch (error) {
        const same = error instanceof Unavailable || error.type === 'still-running';
        if (error.problem?.yours) await lock.#giveBack(key, error.problem.holder);
        else if (!(same || ['contended', 'not-held'].includes(error.type)) || now() >= deadline) throw error;
        if (same) await sleep(PAUSE);
        else key = undefined;
      }
    }
    lock.#renewIn(ttl / 3);
    return lock;
  }

  // Aborted when the lock is lost.
  get signal() { return this.#lost.signal; }

  // For how many ms the lock is ours, if nothing more is heard.
  validFor() { return this.validUntil - now(); }

  check() {
    if (this.validFor() <= 0) throw new LockLost(`lock "${this.#name}" is no longer ours`);
  }

  async release() {
    this.#released = true;
    this.#timers.forEach(clearTimeout);
    try {
      await this.#call('/v1/release', { name: this.#name, token: this.#token }, 5_000);
    } catch {
      // It is not held any more, or it ends by itself.
    }
    this.validUntil = 0;
  }

  // Releases a lock that is ours by its key, at an instance that does not know its token.
  async #giveBack(key, holder) {
    try {
      await this.#call('/v1/release', { name: this.#name, idempotency_key: key, holder }, 5_000);
    } catch {
      // It is not held any more, or it ends by itself.
    }
  }

  #renewIn(pause) {
    this.#timers.forEach(clearTimeout);
    this.#timers = [setTimeout(() => this.#renew(), pause), setTimeout(() => this.#lose(), this.validFor())];
  }

  async #renew() {
    try {
      const lease = await this.#call('/v1/extend', { name: this.#name, token: this.#token }, this.#ttl / 4);
      if (this.#released) return;
      this.#keep(lease);
      this.#renewIn(this.#ttl / 3);
    } catch (error) {
      if (this.#released) return;
      if (error instanceof Unavailable && this.validFor() > 0) this.#renewIn(PAUSE); // The promise stands.
      else this.#lose();
    }
  }

  #lose() {
    this.#timers.forEach(clearTimeout);
    this.validUntil = 0;
    this.#lost.abort(new LockLost(`lock "${this.#name}" is no longer ours`));
  }

  #keep({ sent, answer }) {
    [this.#token, this.fence] = [answer.token, answer.fence];
    this.validUntil = sent + answer.started_after_ms + answer.valid_ms;
  }

  // When it was sent, and the answer of the first instance that gives one.
  async #call(path, body, timeout, more = {}) {
    const headers = { ...this.#headers, ...more };
    let trouble;
    for (const url of [...this.#urls]) {
      const sent = now();
      try {
        const signal = AbortSignal.timeout(Math.ceil(timeout));
        const request = { method: 'POST', headers, body: JSON.stringify(body), signal };
        const response = await fetch(url + path, request);
        const answer = await response.json();
        if (response.ok) return { sent, answer };
        // Others are not about the lock: the instance is ending, is overloaded, or cannot ask its nodes.
        if (response.status < 500 && ![408, 429].includes(response.status)) throw new Refused(answer);
        trouble = answer.detail;
      } catch (error) {
        if (error instanceof Refused) throw error;
        trouble = error.cause?.message ?? error.message;
      }
      this.#urls.push(this.#urls.shift()); // The next call begins with another one.
    }
    throw new Unavailable(`no instance could help: ${trouble}`);
  }
}
