//! What `/openapi.json` says is in the documentation. That answers keep to it, the tests' client
//! checks.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::client::Client;
use crate::{Instance, nodes, service};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");

/// `UPDATE_TESTDATA=1 cargo test -p tenure-server --test http contract` writes the file anew.
#[tokio::test]
async fn the_description_is_the_one_in_the_documentation() {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    client.send_text("GET", "/openapi.json", "text/plain", "").await;
    let served = client.receive_any().await.body;
    if std::env::var_os("UPDATE_TESTDATA").is_some() {
        fs::write(FILE, serde_json::to_string_pretty(&served).unwrap() + "\n").unwrap();
    }
    // Not as texts: built beside other crates, the order of fields is another.
    let file: Value = serde_json::from_str(&fs::read_to_string(FILE).unwrap()).unwrap();
    assert!(
        served == file,
        "docs/reference/openapi.json is out of date: run this test with UPDATE_TESTDATA=1"
    );
    let words = fs::read_to_string(Path::new(FILE).with_file_name("service.md")).unwrap();
    let types = served["components"]["schemas"]["ProblemType"]["enum"].as_array().unwrap();
    let calls = served["paths"].as_object().unwrap().keys();
    let missing: Vec<&str> = (types.iter().filter_map(Value::as_str))
        .chain(calls.map(String::as_str))
        .filter(|name| !words.contains(&format!("{name}`")) && !words.contains(&format!("{name}?")))
        .collect();
    assert!(missing.is_empty(), "docs/reference/service.md does not tell of {missing:?}");
}
