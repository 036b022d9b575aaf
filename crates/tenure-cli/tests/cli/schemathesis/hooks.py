"""Nobody waits for long here: most locks are free, the others stay taken, and whatever has no end is cut off."""

import itertools
import json
import time

import jsonschema
import requests
import schemathesis
import urllib3

WAIT_MAX_MS = 20
# What is longer is refused, and has to stay so.
ALLOWED_MS = 3_600_000
KEY_MAX = 200

# So much is read of an answer that has no end.
STREAM_SECONDS = 0.15
LINES, EVENTS = "application/x-ndjson", "text/event-stream"
STREAMS = (LINES, EVENTS)

# Fields of particular locks, some of which exclude each other.
PARTICULAR = ("names", "slots", "shared", "owner", "at_least_ms", "max_hold_ms", "min_margin", "holding")

numbers = itertools.count()


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict) and isinstance(body.get("wait_ms"), int):
        if WAIT_MAX_MS < body["wait_ms"] <= ALLOWED_MS:
            body["wait_ms"] = WAIT_MAX_MS
    return body


@schemathesis.hook
def before_call(context, case, kwargs):
    """Every hold has a lock of its own, for the others have taken the rest. What is done with a lease begins with
    one, so a sequence of calls begins with a plain lock that is free."""
    if not isinstance(case.body, dict):
        return
    begins = case.operation.path == "/v1/acquire" and case.meta is not None and case.meta.phase.name.value == "stateful"
    if begins and case.meta.generation.mode.is_positive:
        case.body = {field: value for field, value in case.body.items() if field not in PARTICULAR}
    name = case.body.get("name")
    if (begins or case.operation.path == "/v1/hold") and isinstance(name, str) and 0 < len(name) < KEY_MAX:
        case.body = case.body | {"name": f"{name}{next(numbers)}"}


@schemathesis.hook
def map_headers(context, headers):
    """Every lock has a key of its own: one that is used again is refused, and little would be acquired."""
    key = (headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and 0 < len(key) < KEY_MAX:
        headers["Idempotency-Key"] = f"{key}{next(numbers)}"
    return headers


send = requests.adapters.HTTPAdapter.send


def send_and_cut_off(adapter, request, **options):
    """Ends an answer that comes bit by bit, as a client does that has seen enough."""
    response = send(adapter, request, **options)
    kind = response.headers.get("Content-Type")
    if kind in STREAMS:
        response.raw.connection.sock.settimeout(STREAM_SECONDS)
    # Events are read by schemathesis itself.
    if kind == LINES:
        response._content, response._content_consumed = b"".join(chunks(response.raw)), True
        response.raw.close()
    return response


def chunks(raw):
    end = time.monotonic() + STREAM_SECONDS
    try:
        while time.monotonic() < end and (chunk := raw.read1(65_536)):
            yield chunk
    except urllib3.exceptions.ReadTimeoutError:
        pass


requests.adapters.HTTPAdapter.send = send_and_cut_off


@schemathesis.check
def each_part_is_as_described(context, response, case):
    """What comes bit by bit is no JSON as a whole, so its lines, or the data of its events, are compared."""
    kind = response.headers.get("content-type", [""])[0]
    if kind not in STREAMS:
        return
    # The last one may have been cut off.
    *parts, _ = response.content.decode().split("\n")
    if kind == EVENTS:
        parts = [part.removeprefix("data: ") for part in parts if part.startswith("data: ")]
    described = case.operation.definition.raw["responses"]["200"]["content"][kind]["schema"]
    schema = described | {"components": case.operation.schema.raw_schema["components"]}
    for part in parts:
        jsonschema.validate(json.loads(part), schema)
