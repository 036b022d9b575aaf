//! `key_scheme = "yii2"`: the tool sees the locks of the PHP framework, and it sees the tool's.

use tenure_testkit::{RedisServer, Value};

use crate::deployment::Deployment;

/// The key that PHP computes for the name `testmutex`, with the prefix `p`.
const KEY: &str = "p423a00e308252b5e8cf4af55c7541d01";

#[test]
fn with_its_key_scheme_the_tool_shares_locks_with_yii2() {
    let server = RedisServer::start(&[]);
    let url = server.url();
    let deployment = Deployment::of(vec![server], |_| url.clone());
    deployment.write("tenure.toml", "prefix = \"p\"\nkey_scheme = \"yii2\"\n");
    let server = &deployment.servers[0];
    let set = || server.execute(&["SET", KEY, "value-of-yii2", "NX", "PX", "60000"]);
    assert_eq!(set(), Value::Okay);
    let (status, _) = deployment.json(&["status", "testmutex", "--json"]);
    assert_eq!((&status["name"], &status["state"]), (&"testmutex".into(), &"held".into()), "{status}");
    deployment.tenure(&["run", "testmutex", "--", "true"]).ends_with(75);
    // A digest does not tell its name.
    let listed = deployment.tenure(&["ls"]);
    assert!(listed.stdout.contains(&KEY[1..]), "{listed:?}");
    server.execute(&["DEL", KEY]);
    deployment.tenure(&["acquire", "testmutex"]).ends_with(0);
    assert_eq!(server.keys(), [KEY]);
    assert_eq!(set(), Value::Nil, "it is the tool's");
    deployment.tenure(&["release", "--force", "--yes", "testmutex"]).ends_with(0);
    assert_eq!(set(), Value::Okay);
    let shown = deployment.tenure(&["config"]);
    assert!(shown.stdout.contains("key_scheme") && shown.stdout.contains("yii2"), "{shown:?}");
}
