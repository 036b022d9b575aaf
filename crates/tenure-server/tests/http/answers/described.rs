//! What `docs/reference/openapi.json` describes, one line each, and what of it can be seen in an
//! answer.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::everywhere::{Fleet, MadeOf};

/// `POST /v1/acquire 409 contended`: a call with its status and type, or `-`. `POST /v1/acquire
/// takes ttl_ms`, `POST /v1/acquire gives votes[].node`: a field. `problem detail`: one of a
/// problem.
pub(super) type Seen = BTreeSet<String>;

/// What only an instance tells whose worker has died, which is a fault of the service: such calls
/// are served to the last moment. And what a list leaves out, although its entries have the form of
/// a report.
const NOWHERE: [&str; 20] = [
    "POST /v1/extend 503 draining",
    "POST /v1/release 503 draining",
    "POST /v1/force-release 503 draining",
    "GET /v1/lock 503 draining",
    "GET /v1/locks 503 draining",
    "GET /v1/locks gives locks[].age_ms",
    "GET /v1/locks gives locks[].fence",
    "GET /v1/locks gives locks[].holders",
    "GET /v1/locks gives locks[].holds",
    "GET /v1/locks gives locks[].label",
    "GET /v1/locks gives locks[].line[].client",
    "GET /v1/locks gives locks[].line[].keeps",
    "GET /v1/locks gives locks[].line[].label",
    "GET /v1/locks gives locks[].line[].shared",
    "GET /v1/locks gives locks[].line[].since_ms",
    "GET /v1/locks gives locks[].nodes[].error",
    "GET /v1/locks gives locks[].nodes[].label",
    "GET /v1/locks gives locks[].nodes[].waiters",
    "GET /v1/locks gives locks[].readers",
    "GET /v1/locks gives locks[].waiters",
];

/// What only servers have: clients of other libraries, clocks that are set, settings.
const OF_SERVERS: [&str; 5] = [
    "POST /v1/acquire 503 clocks-set-back",
    "POST /v1/hold 503 clocks-set-back",
    "POST /v1/force-release 409 foreign",
    "GET /v1/nodes gives nodes[].eviction",
    "GET /v1/watch gives nodes[].eviction",
];

/// What a single node does not have: another one to differ from, or to be trusted more than.
const OF_SEVERAL: [&str; 5] = [
    "GET /v1/nodes gives nodes[].quarantine_left_ms",
    "GET /v1/nodes gives nodes[].clock_offset_us",
    "GET /v1/events gives node",
    "GET /v1/watch gives nodes[].quarantine_left_ms",
    "GET /v1/watch gives nodes[].clock_offset_us",
];

/// What nodes that are no program of their own do not have.
const OF_PROGRAMS: [&str; 2] = ["GET /v1/nodes gives nodes[].version", "GET /v1/watch gives nodes[].version"];

/// All that these nodes can lead to, but for faults of the service itself.
pub(super) fn described(fleet: &Fleet) -> Seen {
    let mut all = whole();
    let never: &[&[&str]] = match fleet.made_of() {
        MadeOf::Servers(_) => &[&NOWHERE],
        MadeOf::Memory(_) => &[&NOWHERE, &OF_SERVERS, &OF_PROGRAMS],
        MadeOf::Embedded(_) => &[&NOWHERE, &OF_SERVERS, &OF_SEVERAL],
    };
    for never in never.iter().copied().flatten() {
        assert!(all.remove(*never), "{never:?} is not described: strike it off");
    }
    all
}

fn whole() -> Seen {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");
    let described: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let schemas = &described["components"]["schemas"];
    let mut all = Seen::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, call) in methods.as_object().unwrap() {
            let name = format!("{} {path}", method.to_uppercase());
            for (status, answer) in call["responses"].as_object().unwrap() {
                let problem = &answer["content"]["application/problem+json"]["schema"]["allOf"][1];
                let types = problem["properties"]["type"]["enum"].as_array();
                let types =
                    types.map_or_else(|| vec!["-"], |types| types.iter().filter_map(Value::as_str).collect());
                all.extend(types.iter().map(|kind| answered(&name, status, kind)));
            }
            let bodies = |content: &Value| {
                content
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(_, body)| body["schema"].clone())
                    .collect::<Vec<_>>()
            };
            for schema in bodies(&call["requestBody"]["content"]) {
                fields_of(&schema, schemas, &format!("{name} takes "), &mut all);
            }
            for schema in bodies(&call["responses"]["200"]["content"]) {
                fields_of(&schema, schemas, &format!("{name} gives "), &mut all);
            }
            let parameters = call["parameters"].as_array().into_iter().flatten();
            all.extend(
                parameters.map(|parameter| format!("{name} takes {}", parameter["name"].as_str().unwrap())),
            );
        }
    }
    let facts = schemas["Problem"]["properties"].as_object().unwrap().keys();
    all.extend(facts.map(|fact| format!("problem {fact}")));
    let events = schemas["HoldEvent"]["enum"].as_array().unwrap().iter();
    all.extend(events.map(|event| format!("POST /v1/hold gives event {}", event.as_str().unwrap())));
    all.retain(|answer| !answer.ends_with(" internal"));
    all
}

/// The fields of a form, each with what it is in: `nodes[].findings[].advice`.
fn fields_of(schema: &Value, schemas: &Value, inside: &str, all: &mut Seen) {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
        // What is in a problem counts wherever one is.
        if name != "Problem" {
            fields_of(&schemas[name], schemas, inside, all);
        }
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let name = format!("{inside}{name}");
        fields_of(field, schemas, &format!("{name}."), all);
        fields_of(&field["items"], schemas, &format!("{name}[]."), all);
        all.insert(name);
    }
    for form in ["oneOf", "allOf"].iter().filter_map(|many| schema[many].as_array()).flatten() {
        fields_of(form, schemas, inside, all);
    }
}

/// The fields that say something, by the same names.
pub(super) fn fields_in(value: &Value, inside: &str, seen: &mut Seen) {
    for (name, value) in value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        let name = format!("{inside}{name}");
        if !name.ends_with(" problem") && !name.ends_with(".problem") {
            fields_in(value, &format!("{name}."), seen);
        }
        value.as_array().into_iter().flatten().for_each(|one| fields_in(one, &format!("{name}[]."), seen));
        seen.insert(name);
    }
}

/// A live view tells of a lock and of the nodes in the very forms of two other calls: what those
/// have given is given there, too.
pub(super) fn as_in_a_live_view(seen: &mut Seen) {
    let forms = ["GET /v1/lock gives ", "GET /v1/nodes gives "];
    let same = seen.iter().filter_map(|given| forms.iter().find_map(|form| given.strip_prefix(form)));
    let same: Vec<String> = same.map(|field| format!("GET /v1/watch gives {field}")).collect();
    seen.extend(same);
}

pub(super) fn answered(call: &str, status: &str, kind: &str) -> String {
    let call = call.split('?').next().unwrap_or_default();
    format!("{call} {status} {}", kind.trim_start_matches("urn:tenure:"))
}
