//! Every run of the tool is a first look: what the one before has seen, the next one knows from
//! `known_nodes`.
//!
//! The three stories of a second holder are told with the file, and without it as a control.
//! `TENURE_WITNESS_RUNS` says how often; a few times by default.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tenure_testkit::RedisServer;

use crate::deployment::{Deployment, Done, wait_until};

const OFF: &[&str] = &["--known-nodes", "off"];

fn runs() -> usize {
    std::env::var("TENURE_WITNESS_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(2)
}

fn nodes(count: usize) -> Deployment {
    nodes_with(count, &[])
}

fn nodes_with(count: usize, options: &[&str]) -> Deployment {
    let servers: Vec<RedisServer> = (0..count).map(|_| RedisServer::start(options)).collect();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    Deployment::of(servers, |_| urls.join(","))
}

fn file_of(deployment: &Deployment) -> PathBuf {
    deployment.folder().join(".local/state/tenure/known_nodes")
}

/// Runs the tool with more flags behind the command's name.
fn with(deployment: &Deployment, flags: &[&str], arguments: &[&str]) -> Done {
    let (command, rest) = arguments.split_first().unwrap();
    deployment.tenure(&[&[*command], flags, rest].concat())
}

/// What a run comes to that ends with this code. Nodes on a busy machine may not answer in time, so
/// it is repeated.
#[track_caller]
fn ending(code: i32, mut run: impl FnMut() -> Done) -> Done {
    let mut last = None;
    wait_until(|| last.insert(run()).code == Some(code));
    last.unwrap()
}

/// A lock that a script holds. A first start needs all nodes, and a busy machine may not have them
/// all in time.
fn acquire(deployment: &Deployment, flags: &[&str]) {
    wait_until(|| with(deployment, flags, &["acquire", "k"]).code == Some(0));
}

/// Whether a command runs under the same lock.
fn is_given(deployment: &Deployment, flags: &[&str]) -> bool {
    let done = with(deployment, flags, &["run", "k", "--", "touch", "second"]);
    let ran = deployment.folder().join("second").exists();
    match done.code {
        Some(0) => assert!(ran, "{done:?}"),
        // 75: so much later that its holder has put the lock back.
        Some(69 | 75) => assert!(!ran && done.stderr.lines().count() == 1, "{done:?}"),
        _ => panic!("{done:?}"),
    }
    ran
}

/// The story, whether there is a second holder in the end, as often as asked for: never with the
/// file, and seen to happen without.
fn told(what: &str, story: impl Fn(&[&str]) -> bool) {
    let runs = runs();
    let second = (0..runs).filter(|_| story(&[])).count();
    assert_eq!(second, 0, "{what}: second holders in {runs} runs");
    let control = (0..20).any(|_| story(OFF));
    assert!(control, "{what}: no second holder without the file either, so this shows nothing");
}

#[test]
fn one_node_that_was_flushed_gives_no_second_holder() {
    told("FLUSHALL", |flags| {
        let deployment = nodes(1);
        acquire(&deployment, flags);
        deployment.servers[0].execute(&["FLUSHALL"]);
        is_given(&deployment, flags)
    });
}

#[test]
fn three_nodes_that_were_restarted_together_give_no_second_holder() {
    told("three restarts", |flags| {
        let mut deployment = nodes(3);
        acquire(&deployment, flags);
        deployment.servers.iter_mut().for_each(RedisServer::restart_empty);
        is_given(&deployment, flags)
    });
}

#[test]
fn one_node_that_is_restarted_under_a_command_gives_no_second_holder() {
    told("a restart under a command", |flags| {
        let mut deployment = nodes(1);
        let holder = deployment.hold(&[&["k"], flags].concat());
        deployment.servers[0].restart_empty();
        let given = is_given(&deployment, flags);
        drop(holder);
        given
    });
}

/// What is left to a machine that never used the nodes, and what keeps it from a lock that is still
/// held.
#[test]
fn a_stranger_is_told_by_one_node_with_persistence_and_strict_needs_no_telling() {
    let stranger = |deployment: &Deployment| {
        let _ = std::fs::remove_dir_all(deployment.folder().join(".local"));
        is_given(deployment, &[])
    };
    let lose_all = |deployment: &mut Deployment| deployment.servers.iter_mut().for_each(RedisServer::restart);
    let mut forgetful = nodes(3);
    acquire(&forgetful, &[]);
    lose_all(&mut forgetful);
    assert!(stranger(&forgetful), "docs/how-to/run-nodes.md says so");

    let mut one_keeps = nodes(2);
    one_keeps.servers.push(RedisServer::start(&["--appendonly", "yes"]));
    one_keeps.nodes = one_keeps.servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(",");
    acquire(&one_keeps, &[]);
    let log = one_keeps.servers[2].folder().join("appendonlydir/appendonly.aof.1.incr.aof");
    wait_until(|| std::fs::read_to_string(&log).is_ok_and(|log| log.contains("tenure~node:")));
    lose_all(&mut one_keeps);
    assert!(!stranger(&one_keeps));

    let mut strict = nodes(1);
    strict.write("tenure.toml", "restart_guard = \"strict\"\nmax_ttl = \"1s\"\nttl = \"1s\"\n");
    acquire(&strict, &[]);
    lose_all(&mut strict);
    assert!(!stranger(&strict));
}

#[test]
fn an_old_copy_of_the_file_costs_at_most_a_quarantine() {
    let deployment = nodes(1);
    deployment.write("tenure.toml", "max_ttl = \"1s\"\nttl = \"1s\"\n");
    acquire(&deployment, &[]);
    let old = std::fs::read(file_of(&deployment)).unwrap();
    deployment.servers[0].execute(&["FLUSHALL"]);
    assert!(!is_given(&deployment, &[]));
    wait_until(|| deployment.tenure(&["run", "k", "--", "true"]).code == Some(0));
    // The node has waited, and the copy knows nothing of that life.
    std::fs::write(file_of(&deployment), &old).unwrap();
    assert!(is_given(&deployment, &[]));
    assert_ne!(std::fs::read(file_of(&deployment)).unwrap(), old, "it is known again");
    // And where the copy meets a first start that it had no part in, that waits once.
    deployment.servers[0].execute(&["FLUSHALL"]);
    acquire(&deployment, OFF);
    std::fs::write(file_of(&deployment), &old).unwrap();
    wait_until(|| deployment.tenure(&["run", "other", "--", "true"]).code == Some(0));
}

#[test]
fn many_that_come_at_once_are_all_told() {
    let deployment = nodes(3);
    let all = |code: i32, wait: &str| {
        let start = |number| deployment.start(&["run", &format!("k{number}"), "--wait", wait, "--", "true"]);
        let children: Vec<_> = (0..6).map(start).collect();
        for child in children {
            let done = child.done();
            assert_eq!(done.code, Some(code), "{done:?}");
            assert!(!done.stderr.contains("warning"), "{done:?}");
        }
    };
    acquire(&deployment, &[]);
    all(0, "20s");
    deployment.servers.iter().for_each(|server| drop(server.execute(&["FLUSHALL"])));
    all(69, "1ms");
    let lives = std::fs::read_to_string(file_of(&deployment)).unwrap();
    assert!(
        lives.lines().filter(|line| line.starts_with("life\t")).count() <= 6,
        "two lives a node:\n{lives}"
    );
}

#[test]
fn it_can_be_moved_and_switched_off_and_the_command_inherits_it() {
    let deployment = nodes(1);
    acquire(&deployment, OFF);
    assert!(!file_of(&deployment).exists());
    let elsewhere = deployment.folder().join("elsewhere");
    let print = ["run", "--known-nodes", "elsewhere", "x", "--", "printenv", "TENURE_KNOWN_NODES"];
    let inherited = ending(0, || deployment.tenure(&print));
    assert_eq!(inherited.stdout.trim(), elsewhere.to_str().unwrap(), "{inherited:?}");
    assert!(elsewhere.is_file() && !file_of(&deployment).exists());
    deployment.write("tenure.toml", "known_nodes = \"from-file\"\n");
    ending(0, || deployment.tenure(&["run", "y", "--", "true"]));
    assert!(deployment.folder().join("from-file").is_file());
    let shown = deployment.tenure(&["config"]).stdout;
    assert!(shown.contains("/from-file"), "{shown}");
    let refused = deployment.tenure(&["config", "--known-nodes", ""]);
    assert!(refused.ends_with(64).stderr.contains("--known-nodes"), "{refused:?}");
}

#[test]
fn an_embedded_store_needs_none() {
    let deployment = crate::deployment::embedded_store();
    deployment.tenure(&["run", "x", "--", "true"]).ends_with(0);
    assert!(!file_of(&deployment).exists());
}

/// A user who is not root, if we may become anybody.
struct User {
    id: u32,
    tool: PathBuf,
    home: PathBuf,
}

impl User {
    fn new(deployment: &Deployment, id: u32) -> Self {
        let tool = deployment.tool_for_everybody();
        let home = deployment.folder().join(format!("home-{id}"));
        std::fs::create_dir(&home).unwrap();
        let _ = chown(&home, Some(id), Some(id));
        set_mode(&home, 0o700);
        Self { id, tool, home }
    }

    fn command(&self, deployment: &Deployment, arguments: &[&str]) -> Command {
        let mut command = deployment.program(self.tool.to_str().unwrap());
        command.args(arguments).env("HOME", &self.home).current_dir("/");
        if is_root() {
            command.uid(self.id).gid(self.id);
        }
        command
    }

    fn tenure(&self, deployment: &Deployment, arguments: &[&str]) -> Done {
        Done::of(self.command(deployment, arguments).output().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.home.join(".local/state/tenure/known_nodes")
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// That it works, and that one line says that nodes are not remembered and why.
#[track_caller]
fn warns(why: &str, run: impl FnMut() -> Done) {
    let done = ending(0, run);
    assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    assert!(done.stderr.contains("warning") && done.stderr.contains(why), "{done:?}");
}

#[track_caller]
fn is_silent(run: impl FnMut() -> Done) {
    let done = ending(0, run);
    assert_eq!(done.stderr, "", "{done:?}");
}

#[test]
fn a_file_that_cannot_be_used_is_a_warning_and_no_error() {
    let deployment = nodes(1);
    acquire(&deployment, OFF);
    let arguments = ["run", "x", "--", "true"];
    let user = User::new(&deployment, 54_321);
    let run = || user.tenure(&deployment, &arguments);
    // A home that cannot be written, and later a file that need not be.
    set_mode(&user.home, 0o500);
    if is_root() {
        warns("cannot be created", run);
        is_silent(|| user.tenure(&deployment, &["run", "-q", "x", "--", "true"]));
    }
    set_mode(&user.home, 0o700);
    is_silent(run);
    let folder = user.file().parent().unwrap().to_owned();
    set_mode(&folder, 0o500);
    is_silent(run);
    set_mode(&folder, 0o700);

    set_mode(&user.file(), 0o666);
    warns("it is writable by others", run);
    set_mode(&user.file(), 0o600);
    if is_root() {
        chown(user.file(), Some(0), None).unwrap();
        warns("known_nodes", run);
        chown(user.file(), Some(user.id), None).unwrap();
        // A user whom nobody knows, and the same one as a service.
        let without_home = |variables: &[(&str, &Path)]| {
            let mut command = user.command(&deployment, &arguments);
            command.env_remove("HOME").envs(variables.iter().copied());
            Done::of(command.output().unwrap())
        };
        warns("no folder for it", || without_home(&[]));
        let service = user.home.join("service");
        std::fs::create_dir(&service).unwrap();
        chown(&service, Some(user.id), None).unwrap();
        is_silent(|| without_home(&[("STATE_DIRECTORY", &service)]));
        assert!(service.join("tenure/known_nodes").is_file());
    }
    warns("was damaged", || {
        std::fs::write(user.file(), "nonsense").unwrap();
        run()
    });
    is_silent(run);
}

#[test]
fn two_users_each_know_what_they_have_seen() {
    let deployment = nodes(1);
    let (one, other) = (User::new(&deployment, 54_321), User::new(&deployment, 54_322));
    ending(0, || one.tenure(&deployment, &["acquire", "k"]));
    ending(0, || other.tenure(&deployment, &["status", "k"]));
    assert!(one.file().is_file() && other.file().is_file());
    deployment.servers[0].execute(&["FLUSHALL"]);
    for user in [&other, &one] {
        user.tenure(&deployment, &["run", "k", "--", "true"]).ends_with(69);
    }
}

#[test]
fn doctor_says_what_a_restart_of_all_nodes_would_mean() {
    let doctor = |deployment: &Deployment, flags: &[&str], code: i32| {
        ending(code, || with(deployment, flags, &["doctor"])).stdout
    };
    let one = nodes(1);
    acquire(&one, &[]);
    let said = doctor(&one, &[], 1);
    assert!(said.contains("is the only node and has no persistence"), "{said}");
    one.write("strict.toml", "restart_guard = \"strict\"\nprefix = \"strict:\"\n");
    let strict = with(&one, &["--config", "strict.toml"], &["doctor"]);
    assert!(!strict.stdout.contains("is the only node"), "{strict:?}");

    let durable = nodes_with(1, &["--appendonly", "yes", "--appendfsync", "always"]);
    acquire(&durable, &[]);
    let said = doctor(&durable, &[], 0);
    assert!(!said.contains("no persistence") && !said.contains("known_nodes"), "{said}");
    let said = doctor(&durable, OFF, 0);
    assert!(said.contains("known_nodes is off"), "{said}");
    let said = doctor(&durable, &["--known-nodes", "missing/file"], 0);
    assert!(said.contains("does not exist; create it"), "{said}");

    let three = nodes(3);
    acquire(&three, &[]);
    let said = doctor(&three, &[], 0);
    assert!(said.contains("no node has persistence"), "{said}");
}
