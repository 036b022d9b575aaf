// The public calls that the dashboard makes, and nothing else. No other module speaks to the
// service.
import * as sse from "./sse.js";

// What the service answered instead of what was asked for (RFC 9457), or that it did not answer.
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? `the service answered ${status}`);
    this.status = status;
    this.type = (body.type ?? "").replace("urn:tenure:", "");
    this.body = body;
  }
}

async function problem(answer) {
  let body = {};
  try {
    body = await answer.json();
  } catch {
    // A proxy's own page, or nothing: the status has to do.
  }
  return new Problem(answer.status, body);
}

async function ask(method, path, body) {
  const init = { method, cache: "no-store" };
  if (body !== undefined) {
    init.headers = { "Content-Type": "application/json" };
    init.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, init);
  } catch {
    throw new Problem(0, { detail: "the service does not answer" });
  }
  if (!answer.ok) throw await problem(answer);
  return answer.json();
}

export const me = () => ask("GET", "/v1/me");
export const logIn = (token) => ask("POST", "/v1/log-in", { token });
export const logOut = () => ask("POST", "/v1/log-out");
export const forceRelease = (name, holder, reason) => ask("POST", "/v1/force-release", { name, holder, reason });

async function follow(url, options) {
  try {
    await sse.read(url, options);
  } catch (error) {
    if (error instanceof Response) throw await problem(error);
    if (error.name === "AbortError") return;
    throw new Problem(0, { detail: "the connection to the service broke" });
  }
}

// The list of locks with nodes and totals.
export const watchAll = (options) => follow("/v1/watch", options);

// One lock in full.
export const watchLock = (name, options) => follow(`/v1/watch?name=${encodeURIComponent(name)}`, options);

// What happens, from this instance and seen on the nodes.
export const events = (options) => follow("/v1/events?seen=true", options);
