//! Which nodes a run of the tool means: the same ones after `cd`, in the command's environment and
//! in nested runs, and never a local file where others were meant.

use tenure_testkit::RedisServer;

use crate::deployment::{Deployment, Done, TOOL, embedded_store};

/// A run without nodes in its environment.
fn run(deployment: &Deployment, arguments: &[&str], variables: &[(&str, &str)]) -> Done {
    let mut command = deployment.command_without_nodes(arguments);
    Done::of(command.envs(variables.iter().copied()).output().unwrap())
}

fn nodes(deployment: &Deployment, arguments: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
    let done = run(deployment, &[&["config", "--json"], arguments].concat(), variables);
    let shown: serde_json::Value = serde_json::from_str(&done.ends_with(0).stdout).unwrap();
    shown["nodes"]["value"].as_array().unwrap().iter().map(|node| node.as_str().unwrap().to_owned()).collect()
}

/// That no store was made where the default one would be.
#[track_caller]
fn no_local_file(deployment: &Deployment) {
    assert!(!deployment.folder().join(".local/state/tenure/locks.db").exists(), "a local file was used");
}

#[test]
fn a_relative_store_is_the_same_file_after_cd() {
    let deployment = embedded_store();
    let folder = deployment.folder().to_str().unwrap();
    let script = format!("mkdir -p sub && cd sub && echo $TENURE_NODES && {TOOL} acquire x --quiet; echo $?");
    let command = ["--", "sh", "-c", &script];
    for done in [
        run(&deployment, &[&["run", "x", "--nodes", "sqlite:rel.db"], &command[..]].concat(), &[]),
        run(&deployment, &[&["run", "x"], &command[..]].concat(), &[("TENURE_NODES", "sqlite:./rel.db")]),
    ] {
        assert_eq!(done.ends_with(0).stdout, format!("sqlite:{folder}/rel.db\n75\n"), "{done:?}");
    }
    assert!(!deployment.folder().join("sub/rel.db").exists());
}

#[test]
fn paths_in_a_file_are_relative_to_the_file() {
    let deployment = embedded_store();
    let folder = deployment.folder().to_str().unwrap();
    std::fs::create_dir(deployment.folder().join("etc")).unwrap();
    deployment.write("etc/a.toml", "nodes = [\"sqlite:locks.db\"]\n");
    assert_eq!(
        nodes(&deployment, &["--config", "etc/a.toml"], &[]),
        [format!("sqlite:{folder}/etc/locks.db")]
    );
    deployment.write(
        "etc/b.toml",
        "nodes = [\"rediss://a?ca=ca.pem&password_file=a%20b\", { url = \"redis://b/1\", password_file = \"../c\" }]\n",
    );
    let expected = [
        format!("rediss://a?ca={folder}/etc/ca.pem&password_file={folder}/etc/a%20b"),
        format!("redis://b/1?password_file={folder}/etc/../c"),
    ];
    assert_eq!(nodes(&deployment, &["--config", "etc/b.toml"], &[]), expected);
    // Elsewhere they are relative to the working folder, and whole from then on.
    let typed = "redis://a?password_file=secret&db=1";
    let expected = [format!("redis://a?password_file={folder}/secret&db=1")];
    assert_eq!(nodes(&deployment, &["--nodes", typed], &[]), expected);
    assert_eq!(nodes(&deployment, &[], &[("TENURE_NODES", typed)]), expected);
}

#[test]
fn a_nested_run_whose_nodes_were_withheld_fails_and_says_why() {
    let server = RedisServer::start(&["--requirepass", "hunter2"]);
    let url = format!("redis://:hunter2@127.0.0.1:{}", server.port());
    let deployment = Deployment::of(vec![server], |_| url.clone());
    let nested = |script: &str| {
        let script = script.replace("tenure ", &format!("{TOOL} "));
        run(&deployment, &["run", "x", "--nodes", &url, "--", "sh", "-c", &script], &[])
    };
    let refused = |done: &Done| {
        assert!(done.stderr.contains("password") && done.stderr.contains("--nodes"), "{done:?}");
        assert!(!format!("{done:?}").contains("hunter2"), "{done:?}");
    };
    for script in ["tenure status x", "tenure acquire y", "tenure run y -- true", "tenure config"] {
        refused(nested(script).ends_with(64));
    }
    no_local_file(&deployment);
    // A file that lies around may name other nodes.
    deployment.write("tenure.toml", "nodes = [\"sqlite:other.db\"]\n");
    refused(nested("tenure acquire y").ends_with(64));
    assert!(!deployment.folder().join("other.db").exists());
    // Whoever names nodes has them.
    nested("tenure acquire y --nodes sqlite:mine.db").ends_with(0);
    nested("TENURE_NODES=sqlite:mine.db tenure acquire z").ends_with(0);
    nested("tenure acquire z --config tenure.toml").ends_with(0);
    // With the password in a file there is nothing to withhold.
    let file = deployment.write("mine.toml", &format!("nodes = [\"{url}\"]\n"));
    let script = format!("cd / && {TOOL} acquire x --quiet");
    let named = ["run", "x", "--config", file.to_str().unwrap(), "--", "sh", "-c", &script];
    run(&deployment, &named, &[]).ends_with(75);
}

#[test]
fn who_requires_nodes_never_gets_a_local_file() {
    let deployment = embedded_store();
    let refused = |done: Done| {
        assert!(done.ends_with(64).stderr.contains("TENURE_NODES"), "{done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
        no_local_file(&deployment);
    };
    refused(run(&deployment, &["acquire", "x", "--require-nodes"], &[]));
    refused(run(&deployment, &["acquire", "x"], &[("TENURE_REQUIRE_NODES", "true")]));
    let file = deployment.write("tenure.toml", "require_nodes = true\n");
    refused(run(&deployment, &["acquire", "x"], &[]));
    // Named nodes are what is required, also if they are a file.
    deployment.tenure(&["acquire", "x", "--require-nodes"]).ends_with(0);
    // A nested run requires them, too, whatever becomes of its environment.
    std::fs::remove_file(file).unwrap();
    let script = format!("unset TENURE_NODES; {TOOL} acquire y");
    let done = deployment.tenure(&["run", "y", "--require-nodes", "--", "sh", "-c", &script]);
    refused(done);
    let done = run(&deployment, &["acquire", "x"], &[("TENURE_REQUIRE_NODES", "perhaps")]);
    assert!(done.ends_with(64).stderr.contains("true or false"), "{done:?}");
}
