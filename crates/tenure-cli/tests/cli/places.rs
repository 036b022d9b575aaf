//! Where settings are found: in the working folder, a person's own folder and the machine's; and
//! the home of those who have none in their environment.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;

use serde_json::Value;

use crate::deployment::{Deployment, Done, TOOL, embedded_store};

/// Nobody's id: not in the password file of any system.
const STRANGER: u32 = 3_123_456_789;

fn run(deployment: &Deployment, arguments: &[&str], variables: &[(&str, &str)]) -> Done {
    let mut command = deployment.command_without_nodes(arguments);
    Done::of(command.envs(variables.iter().copied()).output().unwrap())
}

fn config(deployment: &Deployment, variables: &[(&str, &str)]) -> Value {
    serde_json::from_str(&run(deployment, &["config", "--json"], variables).ends_with(0).stdout).unwrap()
}

/// Writes a file into a folder that may not be there yet.
fn write(deployment: &Deployment, path: &str, text: &str) -> String {
    std::fs::create_dir_all(deployment.folder().join(path).parent().unwrap()).unwrap();
    deployment.write(path, text).to_str().unwrap().to_owned()
}

#[test]
fn a_persons_own_file_comes_after_the_one_in_the_working_folder() {
    let deployment = embedded_store();
    let folder = deployment.folder().to_str().unwrap().to_owned();
    let own = write(
        &deployment,
        ".config/tenure/tenure.toml",
        "nodes = [\"redis://own\"]\nprefix = \"own:\"\nttl = \"11s\"\nlabel = \"own\"\nmax_ttl = \"40s\"\n",
    );
    let shown = config(&deployment, &[]);
    assert_eq!(
        (&shown["nodes"]["value"][0], &shown["prefix"]["value"]),
        (&"redis://own".into(), &"own:".into())
    );
    assert_eq!(shown["ttl_ms"]["source"], format!("{own}:3"));
    assert_eq!(shown["file"], own.as_str());
    // What the nearer file does not say comes from the next one.
    let near = write(&deployment, "tenure.toml", "ttl = \"7s\"\n");
    let shown = config(&deployment, &[]);
    assert_eq!((&shown["ttl_ms"]["value"], &shown["max_ttl_ms"]["value"]), (&7000.into(), &40_000.into()));
    assert_eq!(shown["nodes"]["value"][0], "redis://own");
    assert_eq!((&shown["file"], &shown["files"]), (&near.as_str().into(), &serde_json::json!([near, own])));
    // But whoever names nodes says everything about them: another file's prefix would be another
    // lock.
    write(&deployment, "tenure.toml", "nodes = [\"redis://near\"]\n");
    let shown = config(&deployment, &[]);
    assert_eq!(shown["nodes"]["value"], serde_json::json!(["redis://near"]));
    assert_eq!(
        (&shown["prefix"]["value"], &shown["max_ttl_ms"]["value"]),
        (&"tenure:".into(), &60_000.into())
    );
    assert_eq!((&shown["ttl_ms"]["value"], &shown["label"]["value"]), (&11_000.into(), &"own".into()));
    // One that was named takes the place of the one in the working folder.
    let named = write(&deployment, "named.toml", "wait = \"3s\"\n");
    let shown = config(&deployment, &[("TENURE_CONFIG", &named)]);
    assert_eq!(
        (&shown["wait_ms"]["value"], &shown["nodes"]["value"][0]),
        (&3000.into(), &"redis://own".into())
    );
    // The folder can be another one; a relative path is none.
    let elsewhere = write(&deployment, "elsewhere/tenure/tenure.toml", "prefix = \"elsewhere:\"\n");
    std::fs::remove_file(near).unwrap();
    let there = format!("{folder}/elsewhere");
    let shown = config(&deployment, &[("XDG_CONFIG_HOME", &there)]);
    assert_eq!(shown["prefix"]["source"], format!("{elsewhere}:1"));
    assert_eq!(config(&deployment, &[("XDG_CONFIG_HOME", "elsewhere")])["prefix"]["value"], "own:");
}

#[test]
fn a_persons_own_file_is_read_only_if_nobody_else_can_have_written_it() {
    let deployment = embedded_store();
    let own = write(&deployment, ".config/tenure/tenure.toml", "ttl = \"7s\"\n");
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o666)).unwrap();
    let done = run(&deployment, &["acquire", "x"], &[]);
    assert!(done.ends_with(64).stderr.contains("is world-writable"), "{done:?}");
    // What is wrong in it is told with its line.
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&own, "prefix = \"p\"\nnodez = []\n").unwrap();
    let done = run(&deployment, &["acquire", "x"], &[]);
    assert!(done.ends_with(64).stderr.contains(&format!("{own}:2: ")), "{done:?}");
}

#[test]
fn the_machines_file_is_read_last() {
    let deployment = embedded_store();
    let folder = deployment.folder().to_str().unwrap();
    // An `/etc` of our own, seen by this shell alone.
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let own_users = if root { &[][..] } else { &["--map-root-user"] };
    let shell = |script: &str| {
        let mut shell = deployment.program("unshare");
        let script = format!("mount --bind {folder}/etc /etc && {{ {script}\n}}");
        shell.args(own_users).args(["--mount", "sh", "-c", &script]).env_remove("TENURE_NODES");
        Done::of(shell.output().unwrap())
    };
    write(
        &deployment,
        "etc/tenure.toml",
        "nodes = [\"redis://machine\"]\nttl = \"9s\"\nrequire_nodes = true\n",
    );
    if shell("true").code != Some(0) {
        println!("not tried: this user may not mount a folder; a person's own file is tried elsewhere");
        return;
    }
    let shown = |done: Done| -> Value { serde_json::from_str(&done.ends_with(0).stdout).unwrap() };
    let machine = shown(shell(&format!("{TOOL} config --json")));
    assert_eq!(machine["nodes"]["value"][0], "redis://machine");
    assert_eq!(machine["ttl_ms"]["source"], "/etc/tenure.toml:2");
    write(&deployment, ".config/tenure/tenure.toml", "nodes = [\"redis://own\"]\n");
    let own = shown(shell(&format!("{TOOL} config --json")));
    assert_eq!((&own["nodes"]["value"][0], &own["ttl_ms"]["value"]), (&"redis://own".into(), &9000.into()));
    // The machine's rule holds for everybody who does not name nodes.
    write(&deployment, "etc/tenure.toml", "require_nodes = true\n");
    write(&deployment, ".config/tenure/tenure.toml", "ttl = \"5s\"\n");
    let done = shell(&format!("{TOOL} acquire x"));
    assert!(done.ends_with(64).stderr.contains("/etc/tenure.toml:1"), "{done:?}");
}

#[test]
fn ttl_wait_and_label_come_from_the_environment_too() {
    let deployment = embedded_store();
    write(&deployment, "tenure.toml", "ttl = \"7s\"\nwait = \"1s\"\nlabel = \"file\"\n");
    let exported = [("TENURE_TTL", "8s"), ("TENURE_WAIT", "forever"), ("TENURE_LABEL", "exported")];
    let shown = config(&deployment, &exported);
    for (setting, value, source) in [
        ("ttl_ms", 8000.into(), "TENURE_TTL"),
        ("wait_ms", "forever".into(), "TENURE_WAIT"),
        ("label", "exported".into(), "TENURE_LABEL"),
    ] as [(&str, Value, &str); 3]
    {
        assert_eq!((&shown[setting]["value"], &shown[setting]["source"]), (&value, &source.into()));
    }
    let done = run(&deployment, &["config", "--ttl", "9s", "--json"], &exported);
    assert_eq!(serde_json::from_str::<Value>(&done.stdout).unwrap()["ttl_ms"]["value"], 9000);
    for (variable, value) in [
        ("TENURE_TTL", "5"),
        ("TENURE_TTL", ""),
        ("TENURE_WAIT", ""),
        ("TENURE_WAIT", "soon"),
        ("TENURE_LABEL", ""),
    ] {
        let done = run(&deployment, &["acquire", "x"], &[(variable, value)]);
        assert!(done.ends_with(64).stderr.contains(variable), "{done:?}");
    }
    let done = deployment.tenure(&["acquire", "x", "--json"]);
    let lease: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(lease["ttl_ms"], 7000);
}

#[test]
fn extend_and_release_know_the_lock_and_the_token_from_the_environment() {
    let deployment = embedded_store();
    let script = |script: &str| {
        let mut shell = deployment.program("sh");
        let begin = format!(
            "tenure() {{ {TOOL} \"$@\"; }}; lease=$(tenure acquire x --export) && eval \"$lease\" || exit 9"
        );
        shell.args(["-c", &format!("{begin}\n{script}")]);
        Done::of(shell.output().unwrap())
    };
    let done = script(
        "tenure extend >/dev/null && tenure acquire x -q; test $? = 75 && tenure release && tenure acquire x >/dev/null",
    );
    done.ends_with(0);
    deployment.tenure(&["release", "--force", "x"]).ends_with(0);
    script("tenure extend x >/dev/null && tenure release x").ends_with(0);
    // A token is one lock's: it is not tried on another.
    for command in ["extend", "release"] {
        let done = script(&format!("tenure {command} y; code=$?; tenure release x; exit $code"));
        assert!(done.ends_with(64).stderr.contains("--token"), "{done:?}");
    }
    for command in ["extend", "release"] {
        let done = deployment.tenure(&[command]);
        assert!(done.ends_with(64).stderr.contains("TENURE_LOCK"), "{done:?}");
        for variable in ["TENURE_LOCK", "TENURE_TOKEN"] {
            let mut command = deployment.command(&[command]);
            command.env("TENURE_LOCK", "x").env("TENURE_TOKEN", "t").env(variable, "");
            let done = Done::of(command.output().unwrap());
            assert!(done.ends_with(64).stderr.contains(&format!("{variable} is set but empty")), "{done:?}");
        }
    }
    // An operator names what is taken by force.
    let mut command = deployment.command(&["release", "--force"]);
    Done::of(command.env("TENURE_LOCK", "x").output().unwrap()).ends_with(64);
}

/// The tool without HOME.
fn homeless(deployment: &Deployment, variables: &[(&str, &str)]) -> std::process::Command {
    let mut command = deployment.command_without_nodes(&["config", "--json"]);
    command.env_remove("HOME").env_remove("STATE_DIRECTORY").envs(variables.iter().copied());
    command
}

#[test]
fn without_a_home_the_state_folder_of_the_service_and_then_the_password_file_count() {
    let deployment = embedded_store();
    let node = |variables: &[(&str, &str)]| -> String {
        let done = Done::of(homeless(&deployment, variables).output().unwrap());
        let shown: Value = serde_json::from_str(&done.ends_with(0).stdout).unwrap();
        shown["nodes"]["value"][0].as_str().unwrap().to_owned()
    };
    assert_eq!(node(&[("STATE_DIRECTORY", "/srv/a:/srv/b")]), "sqlite:/srv/a/tenure/locks.db");
    assert_eq!(
        node(&[("STATE_DIRECTORY", "/srv/a"), ("XDG_STATE_HOME", "/srv/x")]),
        "sqlite:/srv/x/tenure/locks.db"
    );
    let user = std::fs::metadata("/proc/self").unwrap().uid().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let mut entries = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let home = entries.find(|entry| entry.get(2) == Some(&&*user)).map(|entry| entry[5].to_owned());
    if let Some(home) = home {
        let home = std::fs::canonicalize(&home).map_or(home, |home| home.display().to_string());
        assert_eq!(node(&[]), format!("sqlite:{home}/.local/state/tenure/locks.db"));
        assert_eq!(node(&[("HOME", "")]), node(&[]));
    }
}

#[test]
fn who_has_no_home_at_all_has_no_default_store() {
    let deployment = embedded_store();
    // Only root can be somebody whom the password file does not know.
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        println!("not tried: this user is in the password file");
        return;
    }
    let tool = deployment.tool_for_everybody();
    let mut command = deployment.program(tool.to_str().unwrap());
    command.args(["status", "x"]).env_remove("TENURE_NODES").env_remove("HOME").uid(STRANGER);
    let done = Done::of(command.output().unwrap());
    assert!(done.ends_with(64).stderr.contains("XDG_STATE_HOME"), "{done:?}");
    assert!(done.stderr.contains("STATE_DIRECTORY"), "{done:?}");
}
