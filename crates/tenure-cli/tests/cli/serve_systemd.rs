//! The service under systemd: what it tells, and the unit that starts it.

mod machine;

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tenure_testkit::installed;

use self::machine::{Machine, answer};
use crate::deployment::{TOOL, embedded_store};
use crate::serve::Serving;

/// Within which time the watchdog wants to be fed.
const WATCHDOG: Duration = Duration::from_millis(600);

/// Where systemd listens.
struct Manager(UnixDatagram);

impl Manager {
    /// The next message, if there is one in time.
    fn hears(&self, limit: Duration) -> Option<String> {
        self.0.set_read_timeout(Some(limit)).unwrap();
        let mut buffer = [0; 4_096];
        let length = self.0.recv(&mut buffer).ok()?;
        Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
    }

    /// The next one that has this line; those before it are about the watchdog.
    #[track_caller]
    fn awaits(&self, line: &str) -> String {
        loop {
            let message = self.hears(Duration::from_secs(10)).unwrap_or_else(|| panic!("no {line}"));
            if message.lines().any(|said| said == line) {
                return message;
            }
            assert_eq!(message.trim(), "WATCHDOG=1", "before {line}");
        }
    }
}

#[test]
fn systemd_is_told_when_the_service_is_ready_lives_reloads_and_stops() {
    let deployment = embedded_store();
    let path = deployment.folder().join("notify");
    let manager = Manager(UnixDatagram::bind(&path).unwrap());
    let service = Serving::start_with(&deployment, &[], |command| {
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
    });
    let ready = manager.awaits("READY=1");
    assert!(ready.contains(&format!("STATUS=listening on http://{}", service.address)), "{ready}");
    let begun = Instant::now();
    for _ in 0..5 {
        manager.awaits("WATCHDOG=1");
    }
    assert!(begun.elapsed() < 5 * WATCHDOG / 2, "twice as often as it must: {:?}", begun.elapsed());

    let process = Pid::from_raw(service.child.id().try_into().unwrap());
    kill(process, Signal::SIGHUP).unwrap();
    assert!(manager.awaits("RELOADING=1").contains("MONOTONIC_USEC="));
    manager.awaits("READY=1");

    // A process that does not serve does not say that it does.
    kill(process, Signal::SIGSTOP).unwrap();
    while manager.hears(WATCHDOG / 6).is_some() {}
    assert_eq!(manager.hears(WATCHDOG), None);
    kill(process, Signal::SIGCONT).unwrap();
    manager.awaits("WATCHDOG=1");

    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    manager.awaits("STOPPING=1");
}

const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/tenure.service");

/// The unit, with the tool that is tested here in the place of an installed one.
fn unit() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(UNIT).unwrap();
    assert!(text.contains("ExecStart=/usr/bin/tenure "), "{text}");
    let path = folder.path().join("tenure.service");
    std::fs::write(&path, text.replace("/usr/bin/tenure ", &format!("{TOOL} "))).unwrap();
    (folder, path)
}

#[test]
fn the_unit_is_in_order() {
    let Some(mut analyze) = installed("systemd-analyze") else { return };
    let (_folder, unit) = unit();
    let done = analyze.args(["verify", "--man=no"]).arg(&unit).output().unwrap();
    let said = [done.stdout, done.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
    assert!(done.status.success() && said.is_empty(), "{said}");
}

#[test]
fn the_unit_is_hardened() {
    let Some(mut analyze) = installed("systemd-analyze") else { return };
    let (_folder, unit) = unit();
    let done = analyze.args(["security", "--offline=true", "--no-pager"]).arg(&unit).output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    let verdict = said.lines().find(|line| line.contains("Overall exposure level")).unwrap_or(&said);
    assert!(done.status.success() && ["OK", "SAFE"].iter().any(|word| verdict.contains(word)), "{verdict}");
}

/// All that the unit keeps from the service, the service does without.
#[test]
fn a_real_systemd_starts_reloads_watches_and_drains_it() {
    let Some(machine) = Machine::start(UNIT.as_ref()) else { return };
    machine.does("start");
    assert_eq!(machine.property("StatusText"), "listening on http://127.0.0.1:7420");
    let lease = machine.post("/v1/acquire", &json!({ "name": "x", "ttl_ms": 30_000 }));
    assert!(lease["fence"].is_u64(), "{lease}");
    machine.does("reload");
    let reloaded = "reloaded callers, certificates and lease keys";
    assert!(machine.journal().contains(reloaded), "{}", machine.journal());

    // Whoever does not serve is started again, and goes on with the leases of the one before.
    machine.signal("-STOP");
    let deadline = Instant::now() + Duration::from_secs(30);
    while machine.property("NRestarts") != "1" || machine.property("ActiveState") != "active" {
        assert!(Instant::now() < deadline, "{}", machine.journal());
    }
    assert!(machine.journal().contains("Watchdog timeout"), "{}", machine.journal());
    let given = json!({ "name": "x", "token": lease["token"] });
    let longer = machine.post("/v1/extend", &given);
    assert_eq!(longer["fence"], lease["fence"], "{longer}");

    let waiter = machine.call("/v1/acquire", &json!({ "name": "x", "wait_ms": 60_000 }));
    while machine.post("/v1/acquire", &json!({ "name": "x" }))["waiters"] != 1 {}
    machine.does("stop");
    let told = answer(waiter);
    assert_eq!(told["type"], json!("urn:tenure:draining"), "{told}");
    assert_eq!(machine.property("Result"), "success");
}
