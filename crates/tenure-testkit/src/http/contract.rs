//! Every answer is one that `docs/reference/openapi.json` describes, field by field.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::Answer;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");

static CONTRACT: LazyLock<Value> = LazyLock::new(|| {
    let mut contract: Value = serde_json::from_str(&fs::read_to_string(FILE).unwrap()).unwrap();
    close(&mut contract["components"]["schemas"]);
    contract
});

/// Made once each: that takes longer than an answer.
static VALIDATORS: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());

/// Clients must expect new fields, but here each has to be described.
fn close(schemas: &mut Value) {
    for schema in schemas.as_object_mut().into_iter().flat_map(|schemas| schemas.values_mut()) {
        if schema["properties"].is_object() {
            schema["additionalProperties"] = json!(false);
        }
    }
}

/// That the answer to this request is described.
#[track_caller]
pub(super) fn is_kept(method: &str, target: &str, answer: &Answer) {
    let (path, status) = (target.split('?').next().unwrap_or_default(), answer.status);
    let call = &CONTRACT["paths"][path][method.to_ascii_lowercase()];
    // What is no call is described in words, and what comes from the connection.
    if call.is_null() || status == 431 {
        assert!([401, 404, 405, 431].contains(&status), "{method} {path} is not in {FILE}: {answer:?}");
        return;
    }
    let described = &call["responses"][status.to_string()];
    assert!(described.is_object(), "{method} {path} may not answer {status}: {answer:?}");
    let kind = answer.header("content-type").unwrap_or_default();
    let schema = &described["content"][&kind]["schema"];
    assert!(schema.is_object(), "{method} {path} may not answer {status} with {kind:?}: {answer:?}");
    if kind.ends_with("json") || kind == "text/event-stream" {
        let faults = validator(schema);
        let faults = faults.iter_errors(&answer.body);
        let faults: Vec<String> = faults.map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
        assert!(faults.is_empty(), "{method} {path} {status}: {faults:?} in {answer:?}");
    }
}

fn validator(schema: &Value) -> Arc<Validator> {
    let mut made = VALIDATORS.lock().unwrap();
    let made = made.entry(schema.to_string()).or_insert_with(|| {
        let mut schema = schema.clone();
        schema["components"] = CONTRACT["components"].clone();
        Arc::new(jsonschema::validator_for(&schema).unwrap())
    });
    Arc::clone(made)
}
