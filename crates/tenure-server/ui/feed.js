// A stream that is opened again when it ends.
import { now } from "./time.js";

// A sign of life comes at least every ten seconds; without any for this long the stream is dead.
const SILENCE_MAX_MS = 15_000;
const RETRY_MS = [500, 1000, 2000, 4000];

export class Feed {
  // `open` reads until the end; `resumes`: it goes on after the last id. `onProblem` says whether
  // that was the end of it.
  constructor(open, { onMessage, onState, onOpen, onProblem, resumes = false }) {
    Object.assign(this, { open, onMessage, onState, onOpen, onProblem, resumes, lastId: null, running: null });
  }

  start() {
    if (this.running) return;
    this.running = new AbortController();
    this.run(this.running);
  }

  stop() {
    this.running?.abort();
    this.running = null;
  }

  async run(running) {
    for (let failures = 0; !running.signal.aborted; failures += 1) {
      const attempt = new AbortController();
      const end = () => attempt.abort();
      running.signal.addEventListener("abort", end);
      let heard = now();
      const silence = setInterval(() => now() - heard > SILENCE_MAX_MS && attempt.abort(), 1000);
      let problem = null;
      try {
        await this.open({
          signal: attempt.signal,
          lastId: this.resumes ? this.lastId : null,
          onOpen: () => {
            failures = 0;
            heard = now();
            this.onOpen?.();
          },
          onBytes: () => (heard = now()),
          onMessage: (message) => {
            if (running.signal.aborted) return;
            if (message.id) this.lastId = message.id;
            if (message.data === null) return;
            this.onState?.({ state: "live" });
            this.onMessage(message, now());
          },
        });
      } catch (error) {
        problem = error;
      }
      clearInterval(silence);
      running.signal.removeEventListener("abort", end);
      if (running.signal.aborted) return;
      // One that no other try would change.
      if (problem && this.onProblem?.(problem)) return;
      this.onState?.({ state: "lost", detail: problem?.message ?? "the stream ended", problem });
      await new Promise((done) => setTimeout(done, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]));
    }
  }
}
