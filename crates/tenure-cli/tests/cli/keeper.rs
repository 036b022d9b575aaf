//! The keeper of a run: what can be done to it, and what it does when the tool is gone.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use rustix::process::{Resource, Rlimit, prlimit};
use tenure::{Handover, Locks};
use tenure_testkit::Mode;

use crate::deployment::{
    Background, Deployment, TOOL, after_an_hour_of_sleep, deployments_and_service, embedded_store,
    five_redis_nodes, is_alive, pid, read_line, started, stubborn, wait_until,
};
use crate::run::behind_proxies;

/// The processes of the tool that are called like this for the group of a command.
fn called(name: &str, command: u32) -> Vec<u32> {
    let called = format!("tenure\0{name}\0{command}\0");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let named = processes.filter(|process| {
        std::fs::read(process.path().join("cmdline")).is_ok_and(|line| line == called.as_bytes())
    });
    named.filter_map(|process| process.file_name().to_str()?.parse().ok()).collect()
}

/// The process that looks after the group of this command.
pub(crate) fn keeper_of(command: u32) -> u32 {
    let keepers = called("__keep", command);
    let [keeper] = keepers[..] else { panic!("{} keepers", keepers.len()) };
    keeper
}

/// How often each story is told: `TENURE_KEEPER_RUNS` makes it a longer run.
fn runs() -> usize {
    std::env::var("TENURE_KEEPER_RUNS").map_or(2, |runs| runs.parse().unwrap())
}

/// Kills the keeper in one way or another, then the tool: nothing of the group lives when the next
/// one has the lock.
#[test]
fn whatever_hits_the_keeper_nothing_lives_when_the_next_one_has_the_lock() {
    const AT_ONCE: usize = 5;
    let deployment = five_redis_nodes();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGKILL] {
        let (mut told, mut waited) = (0, Duration::ZERO);
        while told < runs() {
            let batch: Vec<String> =
                (told..runs().min(told + AT_ONCE)).map(|run| format!("{signal}-{run}")).collect();
            let start = |name: &String| {
                deployment.start(&[
                    "run",
                    name,
                    "--ttl",
                    "5s",
                    "--wait",
                    "15s",
                    "--",
                    "sh",
                    "-c",
                    &stubborn(name),
                ])
            };
            let tools: Vec<Background> = batch.iter().map(start).collect();
            for (index, (name, tool)) in batch.iter().zip(&tools).enumerate() {
                let (command, grandchild, _) = started(&deployment, name);
                wait_until(|| called("__spare", command).len() == 1);
                kill(pid(keeper_of(command)), signal).unwrap();
                // At once, and when the keeper was or is being replaced.
                std::thread::sleep(Duration::from_micros([0, 300, 3_000, 30_000][(told + index) % 4]));
                tool.signal(Signal::SIGKILL);
                let killed = Instant::now();
                deployment.await_next(name, [command, grandchild]).sees_nobody();
                waited = waited.max(killed.elapsed());
            }
            told += batch.len();
        }
        println!(
            "{signal}: nothing lived in {told} of {told}; the next one had the lock after {waited:?} at most"
        );
    }
}

#[test]
fn a_keeper_ignores_what_can_be_ignored_and_the_command_none_of_it() {
    let deployment = embedded_store();
    let script = "grep -E 'Sig(Blk|Ign)' /proc/self/status > masks; echo $$ > begun; exec sleep 600";
    let tool = deployment.start(&["run", "x", "--", "sh", "-c", script]);
    let command = read_line(&deployment.folder().join("begun")).parse().unwrap();
    let keeper = keeper_of(command);
    // Without those that no process can ignore.
    let can_be_ignored =
        |signal: &Signal| !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP | Signal::SIGCONT);
    for signal in Signal::iterator().filter(can_be_ignored) {
        kill(pid(keeper), signal).unwrap();
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!(is_alive(keeper));
    assert_eq!(keeper_of(command), keeper);
    let masks = std::fs::read_to_string(deployment.folder().join("masks")).unwrap();
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    // Without SIGPIPE, which Rust programs ignore and commands find as it is by default, those that
    // libc keeps to itself, and those that the tool heeds although we may ignore them.
    let left_out = [Signal::SIGPIPE, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT];
    let compared = left_out.iter().fold(0x7fff_ffff, |mask, signal| mask & !(1 << (*signal as u64 - 1)));
    let heeded =
        u64::from_str_radix(masks.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim(), 16);
    assert_eq!(heeded.unwrap() & 0b111, 0, "{masks}");
    for name in ["SigBlk", "SigIgn"] {
        let mask = |text: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap() & compared
        };
        assert_eq!(mask(&masks), mask(&own), "{masks}");
    }
    tool.signal(Signal::SIGTERM);
    tool.done().ends_with(128 + Signal::SIGTERM as i32);
    wait_until(|| !is_alive(keeper));
}

#[test]
fn a_keeper_that_was_killed_is_replaced_and_the_new_one_knows_how_long_the_lock_lasts() {
    for name in ["__keep", "__spare"] {
        let deployment = embedded_store();
        let tool = deployment.start(&["run", "x", "--ttl", "5s", "--", "sh", "-c", &stubborn("started")]);
        let (command, grandchild, _) = started(&deployment, "started");
        wait_until(|| called(name, command).len() == 1);
        let keeper = called(name, command)[0];
        kill(pid(keeper), Signal::SIGKILL).unwrap();
        wait_until(|| called(name, command).iter().any(|new| *new != keeper));
        // Only the new one is left to end the group.
        let others = ["__keep", "__spare"].into_iter().filter(|other| *other != name);
        tool.signal(Signal::SIGSTOP);
        for other in others.flat_map(|other| called(other, command)) {
            kill(pid(other), Signal::SIGKILL).unwrap();
        }
        deployment.await_next("x", [command, grandchild]).sees_nobody();
        tool.signal(Signal::SIGCONT);
        tool.done().ends_with(79);
    }
}

#[test]
fn a_tool_that_cannot_replace_its_keepers_stops_the_command_and_says_why() {
    let deployment = embedded_store();
    let tool = deployment.start(&["run", "x", "--ttl", "2s", "--", "sh", "-c", &stubborn("started")]);
    let (command, grandchild, _) = started(&deployment, "started");
    wait_until(|| called("__spare", command).len() == 1);
    let keepers = [called("__keep", command), called("__spare", command)].concat();
    let none = Rlimit { current: Some(3), maximum: Some(3) };
    prlimit(rustix::process::Pid::from_raw(pid(tool.pid()).as_raw()), Resource::Nofile, none).unwrap();
    for keeper in keepers {
        kill(pid(keeper), Signal::SIGKILL).unwrap();
    }
    wait_until(|| !is_alive(command) && !is_alive(grandchild));
    let done = tool.done();
    assert!(done.ends_with(70).stderr.contains("the command was stopped"), "{done:?}");
    // The lock was released in good order.
    deployment.tenure(&["acquire", "x"]).ends_with(0);
}

#[test]
fn a_keeper_that_was_stopped_goes_on_at_once_and_harms_nobody() {
    let deployment = embedded_store();
    let script = "echo $$ > started; while ! test -e go; do sleep 0.01; done";
    let tool = deployment.start(&["run", "x", "--ttl", "1500ms", "--", "sh", "-c", script]);
    let command = read_line(&deployment.folder().join("started")).parse().unwrap();
    let keeper = keeper_of(command);
    kill(pid(keeper), Signal::SIGSTOP).unwrap();
    // Stopped processes are in this state.
    wait_until(|| {
        let stat = std::fs::read_to_string(format!("/proc/{keeper}/stat")).unwrap();
        !stat.rsplit_once(") ").unwrap().1.starts_with('T')
    });
    std::thread::sleep(Duration::from_millis(2000));
    assert_eq!(keeper_of(command), keeper);
    deployment.write("go", "");
    tool.done().ends_with(0);
}

/// The tool is stopped while it starts the command, until the lock is over. It may be quicker than
/// we are; then it is tried again.
#[test]
fn a_command_is_not_begun_when_no_validity_is_left() {
    let deployment = embedded_store();
    let begun = deployment.folder().join("begun");
    for _ in 0..50 {
        let tool = deployment.start(&["run", "x", "--ttl", "500ms", "--wait", "10s", "--", "touch", "begun"]);
        let children = format!("/proc/{0}/task/{0}/children", tool.pid());
        while is_alive(tool.pid()) && std::fs::read_to_string(&children).unwrap().is_empty() {}
        tool.signal(Signal::SIGSTOP);
        std::thread::sleep(Duration::from_millis(600));
        let was_quicker = begun.exists();
        tool.signal(Signal::SIGCONT);
        let done = tool.done();
        if was_quicker {
            std::fs::remove_file(&begun).unwrap();
            continue;
        }
        assert!(!begun.exists(), "{done:?}");
        if done.stderr.contains("before the command could start") {
            done.ends_with(79);
            return;
        }
    }
    panic!("the tool was never stopped in time");
}

/// A keeper whose tool is this test.
struct Kept {
    keeper: Child,
    pipe: UnixStream,
}

impl Kept {
    /// Lets this program, which ends with the arguments of a keeper, look after a group.
    fn start(mut program: Command, group: &Group) -> Self {
        let (pipe, theirs) = UnixStream::pair().unwrap();
        program.args(["__keep", &group.id().to_string()]);
        let keeper = program.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).spawn().unwrap();
        drop(program);
        Self { keeper, pipe }
    }

    fn say(&mut self, order: &str) {
        self.pipe.write_all(order.as_bytes()).unwrap();
    }

    /// The tool is killed. Returns the keeper.
    fn orphan(self) -> Child {
        self.keeper
    }
}

/// A group of its own with one process in it, which is a child of the test.
struct Group(Child);

impl Group {
    fn start() -> Self {
        let mut sleep = Command::new("sleep");
        Self(sleep.arg("600").process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn id(&self) -> u32 {
        self.0.id()
    }

    fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// A lock that is held, and the order that tells a keeper of it.
fn held_lock(deployment: &Deployment) -> String {
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let ttl = Duration::from_secs(30);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let handover: Handover = runtime.block_on(async {
        let locks = Locks::connect(deployment.nodes.split(',')).await.unwrap();
        locks.ready().await;
        let handover = locks.lock("x").ttl(ttl).acquire().await.unwrap().hand_over();
        tokio::task::yield_now().await;
        handover
    });
    let mut settings: Vec<String> =
        deployment.nodes.split(',').map(|node| format!("node {}", hex(node))).collect();
    let number = |duration: Duration| hex(&duration.as_nanos().to_string());
    settings.push(format!("prefix {}", hex("tenure:")));
    settings.push(format!("ttl {}", number(ttl)));
    settings.push(format!("max_ttl {}", number(Duration::from_secs(60))));
    format!("lock {}\n{handover}\n{}\n", settings.len(), settings.join("\n"))
}

#[test]
fn a_keeper_goes_by_the_clock_that_validity_is_judged_by() {
    let group = Group::start();
    let mut kept = Kept::start(Command::new(TOOL), &group);
    let begun = Instant::now();
    let until = tenure::machine_time() + Duration::from_millis(700);
    kept.say(&format!("until {}\n", until.as_nanos()));
    wait_until(|| !is_alive(group.id()));
    assert!(begun.elapsed() >= Duration::from_millis(690), "{:?}", begun.elapsed());
    kept.say("goodbye\n");
    assert!(kept.orphan().wait().unwrap().success());
}

/// The clock's real readings: a suspension is told by a difference of two clocks, and a namespace
/// makes one.
#[test]
fn the_clock_that_validity_is_judged_by_goes_on_while_the_machine_sleeps() {
    let Some(program) = after_an_hour_of_sleep(TOOL) else { return };
    let group = Group::start();
    let mut kept = Kept::start(program, &group);
    // Half an hour from now, which is over after an hour of sleep.
    let until = tenure::machine_time() + Duration::from_secs(1800);
    kept.say(&format!("until {}\n", until.as_nanos()));
    wait_until(|| !is_alive(group.id()));
    kept.say("goodbye\n");
    assert!(kept.orphan().wait().unwrap().success());
}

#[test]
fn a_keeper_releases_the_lock_although_nobody_asks_how_the_dead_ended() {
    for deployment in deployments_and_service() {
        let group = Group::start();
        let mut kept = Kept::start(Command::new(TOOL), &group);
        kept.say(&held_lock(&deployment));
        deployment.tenure(&["acquire", "x", "--quiet"]).ends_with(75);
        let mut keeper = kept.orphan();
        // As in a container whose first process waits for nobody.
        wait_until(|| deployment.tenure(&["acquire", "x", "--quiet"]).code == Some(0));
        assert!(!is_alive(group.id()));
        assert!(keeper.wait().unwrap().success());
    }
}

/// Only root can start a keeper that may not kill what it looks after.
#[test]
fn a_keeper_releases_nothing_while_something_of_the_group_lives() {
    if !rustix::process::geteuid().is_root() {
        println!("not tried: only root can be somebody else");
        return;
    }
    let deployment = five_redis_nodes();
    let mut group = Group::start();
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", TOOL]);
    // A folder that everybody may be in.
    nobody.current_dir("/");
    let mut kept = Kept::start(nobody, &group);
    kept.say(&held_lock(&deployment));
    let mut keeper = kept.orphan();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        deployment.tenure(&["acquire", "x", "--quiet"]).ends_with(75);
    }
    assert!(keeper.try_wait().unwrap().is_none(), "it still tries");
    group.end();
    wait_until(|| deployment.tenure(&["acquire", "x", "--quiet"]).code == Some(0));
    assert!(keeper.wait().unwrap().success());
}

#[test]
fn a_tool_that_is_killed_holds_nobody_up_for_longer_than_its_group_lives() {
    for deployment in deployments_and_service() {
        let tool = deployment.start(&["run", "x", "--ttl", "30s", "--", "sh", "-c", &stubborn("started")]);
        let (command, grandchild, _) = started(&deployment, "started");
        let killed = Instant::now();
        tool.signal(Signal::SIGKILL);
        deployment.await_next("x", [command, grandchild]).sees_nobody();
        // The ttl and its guard band are 33 s.
        assert!(killed.elapsed() < Duration::from_secs(15), "{:?}", killed.elapsed());
        println!("the next one had the lock after {:?}", killed.elapsed());
    }
}

/// Round trips of 180 ms, as between continents.
#[test]
fn far_nodes_do_not_keep_a_keeper_from_releasing() {
    let (deployment, proxies) = behind_proxies();
    wait_until(|| deployment.tenure(&["run", "warm-up", "--", "true"]).code == Some(0));
    proxies.iter().for_each(|proxy| proxy.set_both(Mode::Delay(Duration::from_millis(90))));
    deployment.write("tenure.toml", "node_timeout = \"1s\"\n");
    let run = ["run", "x", "--ttl", "30s", "--wait", "20s", "--", "sh", "-c", &stubborn("started")];
    let tool = deployment.start(&run);
    let (command, grandchild, _) = started(&deployment, "started");
    let killed = Instant::now();
    tool.signal(Signal::SIGKILL);
    deployment.await_next("x", [command, grandchild]).sees_nobody();
    // The ttl and its guard band are 33 s.
    assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", killed.elapsed());
    println!("the next one had the lock after {:?}", killed.elapsed());
}
