"""Nobody waits for long here: most locks are free, and the others stay taken."""

import schemathesis

WAIT_MAX_MS = 20
# What is longer is refused, and has to stay so.
ALLOWED_MS = 3_600_000


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict) and isinstance(body.get("wait_ms"), int):
        if WAIT_MAX_MS < body["wait_ms"] <= ALLOWED_MS:
            body["wait_ms"] = WAIT_MAX_MS
    return body
