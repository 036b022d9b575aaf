"""Nobody waits for long here: most locks are free, and the others stay taken."""

import itertools

import schemathesis

WAIT_MAX_MS = 20
# What is longer is refused, and has to stay so.
ALLOWED_MS = 3_600_000
KEY_MAX = 200

numbers = itertools.count()


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict) and isinstance(body.get("wait_ms"), int):
        if WAIT_MAX_MS < body["wait_ms"] <= ALLOWED_MS:
            body["wait_ms"] = WAIT_MAX_MS
    return body


@schemathesis.hook
def map_headers(context, headers):
    """Every lock has a key of its own: one that is used again is refused, and little would be acquired."""
    key = (headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and 0 < len(key) < KEY_MAX:
        headers["Idempotency-Key"] = f"{key}{next(numbers)}"
    return headers
