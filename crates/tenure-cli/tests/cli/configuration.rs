//! Flags over the environment over `tenure.toml`, and errors that point at the line.

use std::os::unix::fs::PermissionsExt;

use crate::deployment::{Deployment, Done, embedded_store, five_redis_nodes};

fn config(deployment: &Deployment, arguments: &[&str], variables: &[(&str, &str)]) -> serde_json::Value {
    let mut command = deployment.command_without_nodes(&[&["config", "--json"], arguments].concat());
    let done = Done::of(command.envs(variables.iter().copied()).output().unwrap());
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

#[test]
fn a_file_that_lies_around_is_read_only_if_nobody_else_can_have_written_it() {
    let deployment = embedded_store();
    let path = deployment.write("tenure.toml", "ttl = \"7s\"\n");
    let config = |arguments: &[&str]| deployment.tenure(arguments);
    assert!(config(&["config"]).ends_with(0).stdout.contains("7.0 s"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o646)).unwrap();
    let done = config(&["config"]);
    assert!(done.ends_with(64).stderr.contains("tenure.toml is world-writable"), "{done:?}");
    assert!(config(&["config", "--config", "tenure.toml"]).ends_with(0).stdout.contains("7.0 s"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    // Only root can give a file away.
    if std::os::unix::fs::chown(&path, Some(65_533), None).is_ok() {
        let done = config(&["config"]);
        assert!(done.ends_with(64).stderr.contains("tenure.toml belongs to another user"), "{done:?}");
    }
}

#[test]
fn flags_come_before_the_environment_and_that_before_the_file() {
    let deployment = Deployment::of(vec![], |_| String::new());
    let file =
        "# settings\nnodes = [\"redis://file\"]\nprefix = \"file:\"\nttl = \"7s\"\nwait = \"forever\"\n";
    deployment.write("tenure.toml", file);
    let shown = config(&deployment, &[], &[]);
    assert_eq!(shown["nodes"]["value"][0], "redis://file");
    let source = shown["ttl_ms"]["source"].as_str().unwrap();
    assert!(source.ends_with("/tenure.toml:4"), "{source}");
    assert_eq!((&shown["ttl_ms"]["value"], &shown["wait_ms"]["value"]), (&7000.into(), &"forever".into()));
    let exported = [("TENURE_NODES", "redis://exported"), ("TENURE_PREFIX", "exported:")];
    let shown = config(&deployment, &[], &exported);
    assert_eq!(shown["nodes"]["value"][0], "redis://exported");
    assert_eq!(
        (&shown["nodes"]["source"], &shown["prefix"]["source"]),
        (&"TENURE_NODES".into(), &"TENURE_PREFIX".into())
    );
    let typed =
        ["--nodes", "redis://typed,redis://two", "--prefix=", "--ttl", "9s", "--wait", "2s", "--label", "me"];
    let shown = config(&deployment, &typed, &exported);
    assert_eq!(shown["nodes"]["value"], serde_json::json!(["redis://typed", "redis://two"]));
    for (setting, value) in
        [("prefix", "".into()), ("ttl_ms", 9000.into()), ("wait_ms", 2000.into()), ("label", "me".into())]
            as [(&str, serde_json::Value); 4]
    {
        assert_eq!(shown[setting]["value"], value, "{setting}");
        assert!(shown[setting]["source"].as_str().unwrap().starts_with("--"), "{setting}");
    }
}

#[test]
fn a_file_can_be_named_by_a_flag_and_by_the_environment() {
    let deployment = Deployment::of(vec![], |_| String::new());
    let named =
        |name: &str| deployment.write(name, &format!("prefix = \"{name}\"\n")).to_str().unwrap().to_owned();
    let (flag, exported, _) = (named("flag.toml"), named("exported.toml"), named("tenure.toml"));
    let shown = config(&deployment, &["--config", &flag], &[("TENURE_CONFIG", &exported)]);
    assert_eq!(shown["prefix"]["value"], "flag.toml");
    assert_eq!(config(&deployment, &[], &[("TENURE_CONFIG", &exported)])["prefix"]["value"], "exported.toml");
    assert_eq!(config(&deployment, &[], &[])["prefix"]["value"], "tenure.toml");
}

#[test]
fn every_setting_of_the_file_is_understood() {
    let deployment = Deployment::of(vec![], |_| String::new());
    deployment.write(
        "tenure.toml",
        "nodes = [\"redis://a\", { url = \"redis://b\", password_file = \"secret\" }]\npassword_file = \"for-all\"\n\
         prefix = \"p:\"\nkey_scheme = \"yii2\"\nttl = \"10s\"\nwait = \"1m\"\nlabel = \"l\"\ngrace = \"2s\"\nmax_hold = \"2h\"\nmax_ttl = \"20s\"\n\
         node_timeout = \"30ms\"\nrestart_guard = \"strict\"\nfleet = \"f\"\n",
    );
    let shown = config(&deployment, &[], &[]);
    let folder = deployment.folder().to_str().unwrap();
    assert_eq!(shown["nodes"]["value"][0], format!("redis://a?password_file={folder}/for-all"));
    assert_eq!(shown["nodes"]["value"][1], format!("redis://b?password_file={folder}/secret"));
    for (setting, value) in [
        ("wait_ms", 60_000.into()),
        ("grace_ms", 2000.into()),
        ("max_hold_ms", 7_200_000.into()),
        ("max_ttl_ms", 20_000.into()),
        ("node_timeout_ms", 30.into()),
        ("restart_guard", "strict".into()),
        ("fleet", "f".into()),
        ("key_scheme", "yii2".into()),
    ] as [(&str, serde_json::Value); 8]
    {
        assert_eq!(shown[setting]["value"], value, "{setting}");
    }
}

#[test]
fn what_is_wrong_in_the_file_is_told_with_its_line() {
    let deployment = Deployment::of(vec![], |_| String::new());
    for (text, line, says) in [
        ("prefix = \"p\"\nnodez = []\n", 2, "nodez"),
        ("\n\nttl = \"5\"\n", 3, "no unit"),
        ("ttl = 5\n", 1, "string"),
        ("nodes = []\n", 1, "nodes is empty"),
        ("prefix = \n", 1, "value"),
        ("restart_guard = \"maybe\"\n", 1, "evidence, strict or off"),
        ("key_scheme = \"yii1\"\n", 1, "plain or yii2"),
        ("nodes = [\n  \"redis://a\",\n  { uri = \"redis://:hunter2@b\" },\n]\n", 3, "node"),
    ] {
        deployment.write("tenure.toml", text);
        let done = Done::of(deployment.command_without_nodes(&["config"]).output().unwrap());
        done.ends_with(64);
        assert!(done.stderr.contains(&format!("tenure.toml:{line}: ")), "{text:?}: {done:?}");
        assert!(done.stderr.contains(says) && done.stderr.lines().count() == 1, "{text:?}: {done:?}");
        assert!(!done.stderr.contains("hunter2"));
    }
}

#[test]
fn without_nodes_the_embedded_store_of_this_user_is_the_one_node() {
    let deployment = Deployment::of(vec![], |_| String::new());
    let home = deployment.folder().to_str().unwrap();
    let shown = config(&deployment, &[], &[]);
    assert_eq!(shown["nodes"]["value"][0], format!("sqlite:{home}/.local/state/tenure/locks.db"));
    assert_eq!(shown["nodes"]["source"], "default");
    let shown = config(&deployment, &[], &[("XDG_STATE_HOME", "/somewhere")]);
    assert_eq!(shown["nodes"]["value"][0], "sqlite:/somewhere/tenure/locks.db");
}

#[test]
fn names_are_shared_with_other_clients_under_an_empty_prefix() {
    let deployment = five_redis_nodes();
    let done = deployment.tenure(&["acquire", "x", "--prefix="]);
    assert_eq!(deployment.servers[0].keys(), ["x"], "{done:?}");
    deployment.tenure(&["acquire", "y"]).ends_with(0);
    assert_eq!(deployment.servers[0].keys(), ["tenure:y", "x"]);
}

#[test]
fn a_variable_that_is_set_and_empty_is_wrong_usage() {
    let deployment = embedded_store();
    for (variable, flag) in [("TENURE_NODES", "--nodes"), ("TENURE_CONFIG", "--config")] {
        let mut command = deployment.command_without_nodes(&["acquire", "x"]);
        let done = Done::of(command.env(variable, "").output().unwrap());
        assert!(done.ends_with(64).stderr.contains(&format!("{variable} is set but empty")), "{done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
        // As the flag is.
        deployment.tenure(&["acquire", "x", flag, ""]).ends_with(64);
    }
    assert!(!deployment.folder().join(".local").exists(), "no store was made in the place of the nodes");
    // Empty is a prefix like others: it shares names with other clients.
    assert_eq!(config(&deployment, &[], &[("TENURE_PREFIX", "")])["prefix"]["value"], "");
}

#[test]
fn settings_that_no_lock_can_have_are_told_by_config() {
    let deployment = Deployment::of(vec![], |_| String::new());
    let wrong = |arguments: &[&str], variables: &[(&str, &str)], file: &str, says: &[&str]| {
        deployment.write("tenure.toml", file);
        for command in [&["config"][..], &["config", "--json"]] {
            let mut command = deployment.command_without_nodes(&[command, arguments].concat());
            let done = Done::of(command.envs(variables.iter().copied()).output().unwrap());
            let said = format!("{}{}", done.ends_with(64).stdout, done.stderr);
            assert!(says.iter().all(|word| said.contains(word)) && said.lines().count() == 1, "{done:?}");
        }
    };
    wrong(&["--nodes", "http://a"], &[], "", &["http:// is not supported", "--nodes"]);
    wrong(&[], &[("TENURE_NODES", "redis://a/b")], "", &["not a database", "TENURE_NODES"]);
    wrong(&[], &[], "\nnodes = [\"redis://a\", \"redis://a\"]\n", &["listed twice", "tenure.toml:2"]);
    wrong(&["--ttl", "2h"], &[], "", &["ttl of", "too long", "--ttl"]);
    wrong(&[], &[("TENURE_TTL", "50s")], "max_ttl = \"40s\"\n", &["ttl of", "too long", "TENURE_TTL"]);
    wrong(&[], &[], "max_ttl = \"30d\"\n", &["max_ttl", "tenure.toml:1"]);
    wrong(&[], &[], "\nttl = \"10s\"\ngrace = \"8s\"\n", &["grace", "tenure.toml:3"]);
    wrong(&["--prefix", "tenure~"], &[], "", &["tenure~", "--prefix"]);
    // Nothing was made or asked for.
    assert!(!deployment.folder().join(".local").exists());
}
