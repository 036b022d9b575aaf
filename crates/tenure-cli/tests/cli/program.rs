//! A program that takes its settings from the environment means the same locks as the tool.

use std::io::{BufRead, BufReader, Lines, Read};
use std::process::{Child, ChildStdout, Stdio};

use tenure::Locks;

use crate::deployment::{Deployment, Done, embedded_store};

/// The lock that the program is to hold. It is set where this test is the program.
const PROGRAM: &str = "PROGRAM_HOLDS";

/// Holds a lock until nobody wants that any more.
fn be_the_program(name: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let locks = match Locks::from_env() {
            Ok(locks) => locks,
            Err(error) => return say(&error.to_string()),
        };
        let guard = locks.lock(name).acquire().await.unwrap();
        say("holds");
        let wanted = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
        wanted.await.unwrap().unwrap();
        guard.release().await.unwrap();
    });
}

/// A line of its own among those of the test's harness.
#[expect(clippy::print_stdout, reason = "a program says what it has to say there")]
fn say(words: &str) {
    println!("\nprogram: {words}");
}

/// The program, the rest of what it says, and what it said about its lock.
type Started = (Child, Lines<BufReader<ChildStdout>>, String);

fn start(deployment: &Deployment, variables: &[(&str, &str)]) -> Started {
    let mut command = deployment.program(std::env::current_exe().unwrap().to_str().unwrap());
    let test = "program::a_program_and_the_tool_exclude_each_other_with_the_same_settings";
    command.args(["--exact", test, "--nocapture"]).env_remove("TENURE_NODES").env(PROGRAM, "x");
    command.envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said =
        lines.by_ref().map(Result::unwrap).find_map(|line| line.strip_prefix("program: ").map(str::to_owned));
    (child, lines, said.unwrap())
}

#[test]
fn a_program_and_the_tool_exclude_each_other_with_the_same_settings() {
    if let Ok(name) = std::env::var(PROGRAM) {
        return be_the_program(&name);
    }
    let deployment = embedded_store();
    let tool = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = deployment.command_without_nodes(arguments);
        Done::of(command.envs(variables.iter().copied()).output().unwrap())
    };
    let settings = "nodes = [\"sqlite:locks.db\"]\nprefix = \"p:\"\nmax_ttl = \"40s\"\nlabel = \"settled\"\n";
    for (file, text, variables) in [
        ("tenure.toml", "", &[("TENURE_LABEL", "settled")][..]),
        ("tenure.toml", settings, &[]),
        (".config/tenure/tenure.toml", settings, &[]),
        ("named.toml", settings, &[("TENURE_CONFIG", "named.toml"), ("TENURE_TTL", "35s")]),
        ("tenure.toml", "", &[("TENURE_NODES", "sqlite:other.db"), ("TENURE_LABEL", "settled")]),
    ] {
        std::fs::create_dir_all(deployment.folder().join(file).parent().unwrap()).unwrap();
        let path = deployment.write(file, text);
        let (mut program, _rest, said) = start(&deployment, variables);
        assert_eq!(said, "holds", "{file} {variables:?}");
        let done = tool(&["acquire", "x"], variables);
        assert!(done.ends_with(75).stderr.contains(" settled"), "{done:?}");
        drop(program.stdin.take());
        assert!(program.wait().unwrap().success());
        tool(&["run", "x", "--", "true"], variables).ends_with(0);
        std::fs::remove_file(path).unwrap();
    }
    // What is wrong is told in the same words.
    for variables in [&[("TENURE_NODES", "")][..], &[("TENURE_REQUIRE_NODES", "1")], &[("TENURE_TTL", "5")]] {
        let (mut program, _rest, said) = start(&deployment, variables);
        program.wait().unwrap();
        let done = tool(&["acquire", "x"], variables);
        assert_eq!(done.ends_with(64).stderr, format!("tenure: {said}\n"));
    }
}
