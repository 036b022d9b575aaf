//! The embedded store where it cannot be used, as the tool tells it: exit 74, one clear line, and
//! no lock.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::deployment::{
    Background, Deployment, Done, TOOL, after_an_hour_of_sleep, embedded_store, token, wait_until,
};

/// Who owns nothing of ours, if we may become anybody.
const NOBODY: u32 = 65_534;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Root may write everywhere, so what is forbidden is tried as a user who is not root.
struct PlainUser {
    deployment: Deployment,
    tool: PathBuf,
    is_root: bool,
}

impl PlainUser {
    fn new() -> Self {
        let deployment = embedded_store();
        let tool = deployment.tool_for_everybody();
        Self { deployment, tool, is_root: is_root() }
    }

    /// A folder of this user's.
    fn folder(&self, name: &str, mode: u32) -> PathBuf {
        let folder = self.deployment.folder().join(name);
        std::fs::create_dir(&folder).unwrap();
        self.owns(&folder);
        set_mode(&folder, mode);
        folder
    }

    fn owns(&self, path: &Path) {
        if self.is_root {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    fn command(&self, store: &Path, arguments: &[&str]) -> Command {
        // Nothing here takes a minute.
        let mut command = self.deployment.program("timeout");
        command.arg("60").arg(&self.tool).args(arguments);
        command.env("TENURE_NODES", format!("sqlite:{}", store.display()));
        if self.is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// What is said about a store at this path when a lock is asked for.
    fn complaint(&self, store: &Path) -> String {
        let done =
            Done::of(self.command(store, &["run", "x", "--", "touch", "must-not-run"]).output().unwrap());
        done.ends_with(74);
        assert_eq!((done.stdout.as_str(), done.stderr.lines().count()), ("", 1), "{done:?}");
        assert!(!self.deployment.folder().join("must-not-run").exists());
        done.stderr.replace(self.deployment.folder().to_str().unwrap(), "FOLDER")
    }
}

#[test]
fn a_store_that_cannot_be_used_is_74_and_one_line_says_why() {
    let user = PlainUser::new();
    let mut text = String::new();
    let mut try_out = |what: &str, store: &Path| {
        text.push_str(&format!("{what}\n{}\n", user.complaint(store)));
    };
    let inside = |folder: PathBuf| folder.join("locks.db");
    try_out("no folder", &user.deployment.folder().join("missing/locks.db"));
    try_out("read-only folder", &inside(user.folder("read-only", 0o500)));
    try_out("folder that may not be entered", &inside(user.folder("closed", 0o000)));
    try_out("world-writable folder", &inside(user.folder("open", 0o777)));
    try_out("folder for everybody's temporary files", &inside(user.folder("tmp", 0o1777)));

    let folder = user.folder("link", 0o700);
    symlink("elsewhere.db", folder.join("locks.db")).unwrap();
    try_out("symbolic link", &inside(folder));

    let folder = user.folder("directory", 0o700);
    std::fs::create_dir(folder.join("locks.db")).unwrap();
    try_out("a folder in its place", &inside(folder));

    let store = inside(user.folder("read-only-file", 0o700));
    Done::of(user.command(&store, &["run", "x", "--", "true"]).output().unwrap()).ends_with(0);
    for ending in ["", "-wal", "-shm"] {
        let path = PathBuf::from(format!("{}{ending}", store.display()));
        if path.exists() {
            set_mode(&path, 0o400);
        }
    }
    try_out("read-only file", &store);

    let store = inside(user.folder("world-writable-file", 0o700));
    std::fs::write(&store, "").unwrap();
    user.owns(&store);
    set_mode(&store, 0o666);
    try_out("world-writable file", &store);

    let store = inside(user.folder("text", 0o700));
    std::fs::write(&store, "this is a letter, not a database\n".repeat(300)).unwrap();
    user.owns(&store);
    set_mode(&store, 0o600);
    try_out("no database", &store);
    insta::assert_snapshot!(text);
}

#[test]
fn whoever_waits_is_told_that_somebody_must_fix_it() {
    let user = PlainUser::new();
    let store = user.folder("open", 0o777).join("locks.db");
    for arguments in [
        &["run", "--wait", "forever", "x", "--", "true"][..],
        &["run", "--wait", "10m", "--slots", "2", "x", "--", "true"],
        &["acquire", "--wait", "forever", "x"],
        &["lead", "x", "--", "true"],
    ] {
        let begun = Instant::now();
        let done = Done::of(user.command(&store, arguments).output().unwrap());
        assert!(done.ends_with(74).stderr.contains("is world-writable"), "{done:?}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{done:?}");
    }

    // Somebody did.
    let mut waiter = user.command(&store, &["run", "--wait", "forever", "x", "--", "true"]);
    let waiter = waiter.stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    set_mode(store.parent().unwrap(), 0o700);
    Done::of(waiter.wait_with_output().unwrap()).ends_with(0);
}

#[test]
fn another_command_than_run_is_74_too() {
    let deployment = embedded_store();
    deployment.write("locks.db", &"no database".repeat(1000));
    set_mode(&deployment.folder().join("locks.db"), 0o600);
    let (lease, _) = embedded_store().json(&["acquire", "x", "--json"]);
    let token = token(&lease);
    for arguments in [
        &["acquire", "x"][..],
        &["extend", "x", "--token", token],
        &["release", "x", "--token", token],
        &["release", "--force", "x"],
        &["status", "x"],
        &["ls"],
    ] {
        let done = deployment.tenure(arguments);
        assert!(
            done.ends_with(74).stderr.contains("not a database") || done.stdout.contains("not a database"),
            "{done:?}"
        );
    }
    let done = deployment.tenure(&["doctor"]);
    assert!(done.ends_with(1).stdout.contains("not a database"), "{done:?}");
}

#[test]
fn a_full_disk_is_74_and_grants_nothing() {
    let deployment = embedded_store();
    std::fs::create_dir(deployment.folder().join("disk")).unwrap();
    // A file system of so many KiB, seen by this shell alone.
    let script = |size: u32, then: &str| {
        format!("mount -t tmpfs -o size={size}k,mode=700 tmpfs disk && {{ {then}\n}}")
    };
    // Root may do it at once; others in a user namespace, where that is allowed.
    let own_users = if is_root() { &[][..] } else { &["--map-root-user"] };
    let run = |size: u32, then: &str| {
        let mut shell = deployment.program("unshare");
        shell.args(own_users).args(["--mount", "sh", "-c", &script(size, then)]);
        shell.env("TENURE_NODES", format!("sqlite:{}/disk/locks.db", deployment.folder().display()));
        Done::of(shell.output().unwrap())
    };
    if run(64, "true").code != Some(0) {
        // A limit on the size of files is tried elsewhere.
        return tenure_testkit::skip("this user may not mount");
    }
    let first = run(64, &format!("{TOOL} run x -- echo ran"));
    assert!(first.ends_with(74).stderr.contains("the disk is full"), "{first:?}");
    assert_eq!((first.stdout.as_str(), first.stderr.lines().count()), ("", 1), "{first:?}");

    // A disk that fills while locks are held: whoever has one keeps it, nobody else gets it, and
    // room mends it.
    let then = format!(
        "{TOOL} acquire held >lease || exit 1
         dd if=/dev/zero of=disk/ballast bs=1k 2>/dev/null
         {TOOL} run other -- echo ran; echo full $?
         {TOOL} run held -- echo ran; echo held $?
         rm disk/ballast
         {TOOL} run other -- echo ran; echo room $?
         {TOOL} run held -- echo ran; echo held $?"
    );
    let done = run(512, &then);
    assert_eq!(done.ends_with(0).stdout, "full 74\nheld 75\nran\nroom 0\nheld 75\n", "{done:?}");
}

/// A process in a time namespace sees another boot clock, and must not see another time of the
/// store.
#[test]
fn a_process_in_another_time_namespace_sees_the_same_time() {
    let deployment = embedded_store();
    let Some(mut inside) = after_an_hour_of_sleep(TOOL) else { return };
    let _holder = deployment.hold(&["x", "--ttl", "30s"]);
    inside.current_dir(deployment.folder()).env("TENURE_NODES", &deployment.nodes);
    let done = Done::of(inside.args(["status", "x", "--json"]).output().unwrap());
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let left = report["left_ms"].as_u64().unwrap_or_else(|| panic!("{report}"));
    assert!((15_000..=34_000).contains(&left), "{report}");
}

#[test]
fn a_system_without_room_for_us_is_70() {
    let deployment = embedded_store();
    // With fewer open files than the runtime itself needs.
    for files in [4, 5, 6, 7, 8] {
        let mut shell = deployment.program("sh");
        shell.args(["-c", &format!("ulimit -n {files}; exec {TOOL} run x -- echo ran")]);
        let done = Done::of(shell.output().unwrap());
        assert_eq!((done.stdout.as_str(), done.stderr.lines().count()), ("", 1), "{done:?}");
        assert!(done.ends_with(70).stderr.starts_with("tenure: "), "{done:?}");
    }
}

#[test]
fn without_nodes_the_users_own_store_is_used_and_its_folder_is_private() {
    let deployment = embedded_store();
    let tool = |arguments: &[&str]| Done::of(deployment.command_without_nodes(arguments).output().unwrap());
    let script = format!("echo $TENURE_NODES; {TOOL} run x -- true; echo $?");
    let done = tool(&["run", "x", "--", "sh", "-c", &script]);
    let folder = deployment.folder().join(".local/state/tenure");
    let real = folder.canonicalize().unwrap();
    assert_eq!(done.ends_with(0).stdout, format!("sqlite:{}/locks.db\n75\n", real.display()), "{done:?}");
    assert_eq!(std::fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    assert_eq!(std::fs::metadata(folder.join("locks.db")).unwrap().mode() & 0o777, 0o600);

    // Others may not enter it, however it is named.
    set_mode(&folder, 0o755);
    let named = format!("sqlite:{}", folder.join("locks.db").display());
    for arguments in [&["acquire", "y"][..], &["acquire", "y", "--nodes", &named]] {
        let done = tool(arguments);
        assert!(done.ends_with(74).stderr.contains("chmod 700"), "{done:?}");
    }
}

#[test]
fn where_nobody_can_be_woken_nobody_waits_and_holders_go_on() {
    let user = PlainUser::new();
    let folder = user.folder("deaf", 0o700);
    let store = folder.join("locks.db");
    let holder = Background::start(user.command(&store, &["run", "x", "--ttl", "1s", "--", "sleep", "3"]));
    let held =
        || Done::of(user.command(&store, &["status", "x"]).output().unwrap()).stdout.starts_with("x  held");
    wait_until(held);
    set_mode(&folder.join("locks.db.wake"), 0o500);
    let waiter = user.command(&store, &["run", "x", "--wait", "1s", "--", "true"]).output().unwrap();
    let done = Done::of(waiter);
    assert!(done.ends_with(74).stderr.contains("locks.db.wake"), "{done:?}");
    assert!(held());
    holder.done().ends_with(0);
}
