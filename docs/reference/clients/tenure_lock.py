"""A client of Tenure's lock service: one file, standard library only.

    from tenure_lock import Lock

    with Lock(["http://127.0.0.1:7420"], "import", ttl=30, wait=60) as lock:
        for row in rows:
            lock.check()                  # raises LockLost once the lock is no longer ours
            store(row, fence=lock.fence)  # the store refuses a fence smaller than the last one

The lock is extended in the background. It is ours until `valid_until`, which is counted from before
the request was sent: an answer can be held up on its way. A pause between `check` and its effect
cannot be ruled out, and that is what the fence is for.
"""

import http.client
import json
import threading
import time
import urllib.error
import urllib.request
import uuid

# One call waits no longer than this: many proxies close a connection that is silent for a minute.
WAIT_PER_CALL = 30.0

# The pause before asking again when no instance could help.
PAUSE = 0.2


def now():
    """Seconds by a clock that nobody sets; where there is one, it counts while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Refused(Exception):
    """The service said no. `problem` has its reasons, by RFC 9457; `type` is stable."""

    def __init__(self, problem):
        super().__init__(problem.get("detail") or problem)
        self.problem = problem
        self.type = str(problem.get("type", "")).removeprefix("urn:tenure:")


class Unavailable(Exception):
    """No instance could help: unreachable, about to end, or without a majority of its nodes."""


class LockLost(Exception):
    """The lock is no longer ours: stop the work that it protects."""


class Lock:
    def __init__(self, urls, name, ttl=30.0, wait=0.0, label=None, caller_token=None):
        self.urls, self.name, self.ttl, self.wait, self.label = list(urls), name, ttl, wait, label
        self.headers = {"Content-Type": "application/json"}
        if caller_token:
            self.headers["Authorization"] = f"Bearer {caller_token}"
        self.fence = self.token = None
        self.valid_until = 0.0
        self.released = threading.Event()

    def __enter__(self):
        self.acquire()
        return self

    def __exit__(self, kind, *_):
        lost = self.valid_for() <= 0
        self.release()
        if lost and kind is None:
            raise LockLost(f"lock {self.name!r} was lost before the work had ended")

    def acquire(self):
        """Waits in line for at most `wait` seconds; raises Refused with type `contended` after that.

        Without an answer nobody knows who has the lock, so the same question is sent again, with
        the same key: whoever got the lock by it gets it again, and does not wait for itself.
        """
        deadline, key = now() + self.wait, None
        while True:
            if key is None:
                wait = max(0.0, min(deadline - now(), WAIT_PER_CALL))
                body = {"name": self.name, "ttl_ms": int(self.ttl * 1000), "wait_ms": int(wait * 1000)}
                if self.label:
                    body["label"] = self.label
                key = uuid.uuid4().hex
            try:
                self.keep(*self.call("/v1/acquire", body, timeout=wait + 5, key=key))
                # An answer that came too late is no lock.
                if self.valid_for() > 0:
                    break
            except Refused as refused:
                if refused.problem.get("yours"):
                    self.give_back(key, refused.problem["holder"])
                elif refused.type not in ("contended", "not-held", "still-running") or now() >= deadline:
                    raise
                if refused.type == "still-running":
                    time.sleep(PAUSE)
                else:
                    key = None
            except Unavailable:
                if now() >= deadline:
                    raise
                time.sleep(PAUSE)
        self.released.clear()
        self.renewal = threading.Thread(target=self.renew, daemon=True)
        self.renewal.start()

    def valid_for(self):
        """For how many seconds the lock is ours, if nothing more is heard."""
        return self.valid_until - now()

    def check(self):
        if self.valid_for() <= 0:
            raise LockLost(f"lock {self.name!r} is no longer ours")

    def release(self):
        self.released.set()
        self.renewal.join()
        try:
            self.call("/v1/release", {"name": self.name, "token": self.token}, timeout=5)
        except (Refused, Unavailable):
            pass  # It is not held any more, or it ends by itself.
        self.valid_until = 0.0

    def give_back(self, key, holder):
        """Releases a lock that is ours by its key, at an instance that does not know its token."""
        try:
            body = {"name": self.name, "idempotency_key": key, "holder": holder}
            self.call("/v1/release", body, timeout=5)
        except (Refused, Unavailable):
            pass  # It is not held any more, or it ends by itself.

    def renew(self):
        pause = self.ttl / 3
        while not self.released.wait(pause) and self.valid_for() > 0:
            try:
                body = {"name": self.name, "token": self.token}
                self.keep(*self.call("/v1/extend", body, timeout=self.ttl / 4))
                pause = self.ttl / 3
            except Unavailable:
                pause = PAUSE  # What was promised before still counts.
            except Refused:
                self.valid_until = 0.0

    def keep(self, sent, lease):
        self.token, self.fence = lease["token"], lease["fence"]
        self.valid_until = sent + (lease["started_after_ms"] + lease["valid_ms"]) / 1000

    def call(self, path, body, timeout, key=None):
        """When it was sent, and the answer of the first instance that gives one."""
        trouble, headers = None, self.headers | ({"Idempotency-Key": key} if key else {})
        for url in list(self.urls):
            request = urllib.request.Request(url + path, json.dumps(body).encode(), headers)
            sent = now()
            try:
                with urllib.request.urlopen(request, timeout=timeout) as response:
                    return sent, json.load(response)
            except urllib.error.HTTPError as error:
                problem = read_problem(error)
                # Not about the lock: this instance is ending, is overloaded, or cannot ask its nodes.
                if error.code not in (408, 429) and error.code < 500:
                    raise Refused(problem) from None
                trouble = problem.get("detail")
            except (OSError, http.client.HTTPException, ValueError) as error:
                trouble = error
            # The next call begins with another one.
            self.urls.append(self.urls.pop(0))
        raise Unavailable(f"no instance could help: {trouble}")


def read_problem(error):
    try:
        return json.load(error)
    except (OSError, ValueError):
        return {"status": error.code, "detail": str(error)}
