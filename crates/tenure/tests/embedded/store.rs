//! The embedded store as a user of the library sees it: where it may lie, and what is said when it
//! cannot be used.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure::{
    AcquireError, Fault, FindingKind, FleetError, Locks, Persistence, RestartGuard, Role, SqliteNode,
    UrlError, Vote, give_up_prefix,
};

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    (folder, path)
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

async fn locks(path: &Path) -> Locks {
    Locks::connect([format!("sqlite:{}", path.display())]).await.unwrap()
}

/// What is said when the store at `path` is asked for a lock and cannot give it.
async fn complaint(path: &Path) -> String {
    let error = locks(path).await.lock("x").try_acquire().await.expect_err("no lock is given");
    let AcquireError::Unavailable { votes, .. } = &error else { panic!("{error}") };
    match votes.iter().next().unwrap().vote.clone() {
        Some(Vote::Unknown(Fault::Store { reason: words, .. })) => {
            assert!(words.contains(path.to_str().unwrap()), "{words} names no path");
            assert!(error.to_string().contains(&*words), "{error}");
            words.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_new_store_gives_its_first_lock_at_once_and_is_for_its_user_alone() {
    let (folder, path) = folder();
    let locks = locks(&path).await;
    let guard = locks.lock("x").try_acquire().await.unwrap().expect("free");
    assert!(guard.fence().get() > 0);
    for ending in ["", "-wal", "-shm"] {
        assert_eq!(mode_of(&folder.path().join(format!("locks.db{ending}"))), 0o600, "{ending}");
    }
    assert_eq!(mode_of(&folder.path().join("locks.db.wake")), 0o700);
    let report = locks.nodes().await.remove(0);
    assert_eq!((report.role, report.persistence, report.votes), (Role::Embedded, Persistence::Always, true));
    assert_eq!(report.findings, []);
    assert_eq!(&*report.node, format!("sqlite:{}", path.canonicalize().unwrap().display()));
    guard.release().await.unwrap();
    assert!(locks.lock("x").try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn after_a_shutdown_none_of_our_waiters_is_in_line() {
    let (_folder, path) = folder();
    let (holder, asker) = (locks(&path).await, locks(&path).await);
    let _guard = holder.lock("x").acquire().await.unwrap();
    for round in 0..20 {
        let waiter = locks(&path).await;
        let waiting = tokio::spawn({
            let lock = waiter.lock("x");
            async move { lock.acquire().await.map(|_| ()) }
        });
        while asker.inspect("x").await.unwrap().waiters != Some(1) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        waiting.abort();
        waiter.shutdown().await.unwrap();
        assert_eq!(asker.inspect("x").await.unwrap().waiters, Some(0), "round {round}");
    }
}

#[tokio::test]
async fn a_manager_that_ends_leaves_no_socket_behind_however_long_the_path_is() {
    for length in [1, 120] {
        let (folder, _) = folder();
        let inner = folder.path().join("d".repeat(length));
        std::fs::create_dir(&inner).unwrap();
        let path = inner.join("locks.db");
        let sockets = || std::fs::read_dir(inner.join("locks.db.wake")).unwrap().count();
        let (holder, waiter) = (locks(&path).await, locks(&path).await);
        let guard = holder.lock("x").acquire().await.unwrap();
        let waiting = waiter.lock("x");
        let waiting = tokio::spawn(async move { waiting.acquire().await.unwrap() });
        while sockets() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        guard.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
        drop(waiter);
        let deadline = Instant::now() + Duration::from_secs(60);
        while sockets() > 0 {
            assert!(Instant::now() < deadline, "with a folder of {length} bytes");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_symbolic_link_in_the_place_of_the_file_is_refused() {
    let (folder, path) = folder();
    let target = folder.path().join("elsewhere.db");
    symlink(&target, &path).unwrap();
    assert!(complaint(&path).await.contains("is a symbolic link"));
    assert!(!target.exists(), "nothing was made behind it");
    std::fs::remove_file(&path).unwrap();
    drop(locks(&path).await.lock("x").try_acquire().await.unwrap().unwrap());
    let (_other, linked) = self::folder();
    symlink(&path, &linked).unwrap();
    assert!(complaint(&linked).await.contains("is a symbolic link"));
}

#[tokio::test]
async fn a_file_that_has_a_second_name_is_refused_under_both() {
    let (folder, path) = folder();
    let holder = locks(&path).await;
    let guard = holder.lock("x").acquire().await.unwrap();
    let other = folder.path().join("other.db");
    std::fs::hard_link(&path, &other).unwrap();
    for name in [&path, &other] {
        assert!(complaint(name).await.contains("has a second name"));
    }
    std::fs::remove_file(&other).unwrap();
    assert!(locks(&path).await.lock("x").try_acquire().await.unwrap().is_none(), "still held");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn folders_and_files_that_everybody_may_write_are_refused() {
    let (folder, path) = folder();
    for bits in [0o777, 0o1777, 0o702] {
        mode(folder.path(), bits);
        assert!(complaint(&path).await.contains("is world-writable"));
        assert!(!path.exists(), "nothing was made there");
    }
    mode(folder.path(), 0o700);
    std::fs::write(&path, "").unwrap();
    mode(&path, 0o666);
    assert!(complaint(&path).await.contains("is world-writable"));
    mode(folder.path(), 0o777);
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    assert!(complaint(&inner.join("locks.db")).await.contains("is world-writable"), "the way there");
}

#[tokio::test]
async fn a_folder_that_is_writable_for_its_group_makes_a_store_for_the_group() {
    let (folder, path) = folder();
    mode(folder.path(), 0o2770);
    let guard = locks(&path).await.lock("x").try_acquire().await.unwrap().unwrap();
    for ending in ["", "-wal", "-shm"] {
        assert_eq!(mode_of(&folder.path().join(format!("locks.db{ending}"))), 0o660, "{ending}");
    }
    // Sockets get the group of the store, whatever group their makers have first.
    assert_eq!(mode_of(&folder.path().join("locks.db.wake")), 0o2770);
    guard.release().await.unwrap();
}

/// Only root can give files away, so elsewhere there is nothing to see.
#[tokio::test]
async fn files_and_folders_of_other_users_are_refused_unless_shared_with_a_group() {
    if !is_root() {
        return tenure_testkit::skip("only root can give files away");
    }
    // Nobody of that name; 65534 is what a container calls all whom it does not know.
    let nobody = Some(65_533);
    let (folder, path) = folder();
    std::fs::write(&path, "").unwrap();
    std::os::unix::fs::chown(&path, nobody, None).unwrap();
    assert!(complaint(&path).await.contains("belongs to another user"));
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::chown(folder.path(), nobody, None).unwrap();
    assert!(complaint(&path).await.contains("belongs to another user"));
    mode(folder.path(), 0o770);
    assert!(locks(&path).await.lock("x").try_acquire().await.unwrap().is_some());
    // Shared with a group, but not with ours.
    std::os::unix::fs::chown(folder.path(), nobody, nobody).unwrap();
    assert!(complaint(&path).await.contains("a group this user is not in"));
    // One's own folder in one that another could replace.
    std::os::unix::fs::chown(folder.path(), nobody, None).unwrap();
    mode(folder.path(), 0o755);
    let inside = folder.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let words = complaint(&inside.join("locks.db")).await;
    assert!(words.contains("belongs to another user, so its contents could be replaced"), "{words}");
}

#[tokio::test]
async fn what_is_no_database_is_refused_and_left_alone() {
    let (_folder, path) = folder();
    let text = "these are the only copies of my letters, ".repeat(100);
    std::fs::write(&path, &text).unwrap();
    assert!(complaint(&path).await.contains("not a database"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_damaged_store_gives_no_lock_and_says_so() {
    let (_folder, path) = folder();
    let first = locks(&path).await;
    for name in 0..200 {
        std::mem::forget(first.lock(name.to_string()).try_acquire().await.unwrap().unwrap());
    }
    first.shutdown().await.unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    // All but the first page: what a database is can still be seen, what is in it cannot.
    bytes[4_096..].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let words = complaint(&path).await;
    assert!(words.contains("damaged"), "{words}");
}

#[tokio::test]
async fn a_store_that_is_removed_while_it_is_in_use_gives_no_more_locks_in_the_old_file() {
    for removed in [&["", "-wal", "-shm"][..], &["-wal", "-shm"], &["-wal"], &["-shm"]] {
        let (_folder, path) = folder();
        let locks = locks(&path).await;
        locks.lock("x").acquire().await.unwrap().release().await.unwrap();
        for ending in removed {
            std::fs::remove_file(format!("{}{ending}", path.display())).unwrap();
        }
        let error = locks.lock("x").try_acquire().await.expect_err("the file is gone");
        assert!(error.to_string().contains("removed or replaced"), "{removed:?}: {error}");
        // The new file may have forgotten locks, and there is somebody who knows.
        let (mut locks, mut error) = (locks, error);
        for _ in 0..2 {
            while !matches!(&error, AcquireError::Unavailable { votes, .. } if votes.to_string().contains("forgotten"))
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
                error = locks.lock("x").try_acquire().await.expect_err("it is kept out for a while");
            }
            locks = self::locks(&path).await;
            error = locks.lock("x").try_acquire().await.expect_err("whoever comes now is told, too");
        }
    }
}

#[tokio::test]
async fn a_log_that_is_removed_is_opened_anew_when_all_managers_of_the_process_have_left_the_old_one() {
    let (_folder, path) = folder();
    let (one, other) = (locks(&path).await, locks(&path).await);
    for locks in [&one, &other] {
        locks.lock("x").acquire().await.unwrap().release().await.unwrap();
    }
    for ending in ["-wal", "-shm"] {
        std::fs::remove_file(format!("{}{ending}", path.display())).unwrap();
    }
    one.lock("x").try_acquire().await.expect_err("the log is gone");
    assert!(complaint(&path).await.contains("has not noticed yet"));
    other.lock("x").try_acquire().await.expect_err("this one notices, too");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !one.lock("x").try_acquire().await.unwrap_err().to_string().contains("forgotten") {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_named() {
    let (folder, _) = folder();
    let path = folder.path().canonicalize().unwrap().join("missing/locks.db");
    assert!(complaint(&path).await.contains("missing"));
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_named() {
    // Nobody can make files there, not even root.
    let error = locks(Path::new("/proc/locks.db")).await.lock("x").try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("the store /proc/locks.db cannot be used"), "{error}");
}

/// Root may write whatever the mode says, so for root there is nothing to see.
#[tokio::test]
async fn a_store_that_this_user_may_not_write_is_named() {
    let (folder, path) = folder();
    locks(&path).await.lock("x").acquire().await.unwrap().release().await.unwrap();
    mode(&path, 0o400);
    if !is_root() {
        assert!(complaint(&path).await.contains("cannot write to it"));
        mode(&path, 0o600);
        mode(folder.path(), 0o500);
        let fresh = folder.path().join("other.db");
        assert!(complaint(&fresh).await.contains("cannot be created"));
    }
}

#[tokio::test]
async fn a_process_that_stands_still_in_the_middle_of_a_write_makes_nobody_hang() {
    let (_folder, path) = folder();
    let locks = locks(&path).await;
    locks.lock("x").acquire().await.unwrap().release().await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let start = Instant::now();
    let patient = locks.lock("x").node_timeout(Duration::from_secs(10));
    let error = patient.try_acquire().await.expect_err("nothing can be written");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(error.to_string().contains("is busy: another process has been writing"), "{error}");
    assert!(locks.inspect("x").await.is_ok(), "whoever only looks is not held up");
    other.execute_batch("ROLLBACK").unwrap();
    assert!(locks.lock("x").acquire().await.is_ok());
}

#[tokio::test]
async fn an_unusable_store_is_a_finding_of_its_node() {
    let (_folder, path) = folder();
    std::fs::write(&path, "not a database, and long enough to be looked at; ".repeat(20)).unwrap();
    let report = locks(&path).await.nodes().await.remove(0);
    assert!(!report.votes);
    assert_eq!(report.findings[0].kind, FindingKind::Store);
    assert!(report.findings[0].message.contains("not a database"), "{}", report.findings[0]);
}

#[test]
fn urls_of_stores_are_read_as_they_are() {
    let node = SqliteNode::parse("sqlite:/srv/a b/50%25?.db").unwrap();
    assert_eq!(node.path(), Path::new("/srv/a b/50%25?.db"));
    assert_eq!(SqliteNode::parse("sqlite:///srv/x.db").unwrap().path(), Path::new("/srv/x.db"));
    assert!(SqliteNode::parse("sqlite:x.db").unwrap().path().is_absolute());
    for url in ["sqlite:", "sqlite:/", "sqlite://x.db"] {
        assert!(matches!(SqliteNode::parse(url), Err(UrlError::Missing { .. })), "{url}");
    }
    assert!(matches!(SqliteNode::parse("mysql:/x"), Err(UrlError::Scheme { .. })));
}

#[tokio::test]
async fn nothing_is_left_of_a_prefix_that_is_given_up() {
    let (_folder, path) = folder();
    let kept = locks(&path).await.lock("x").acquire().await.unwrap();
    let trial = || {
        let trial = Locks::builder().node(SqliteNode::new(&path)).prefix("trial:");
        // The fences of a new life begin half a quarantine ahead.
        trial.max_ttl(Duration::from_secs(1)).restart_guard(RestartGuard::Off)
    };
    let trying = trial().build().unwrap();
    trying.lock("x").acquire().await.unwrap().release().await.unwrap();
    trying.shutdown().await.unwrap();
    let rows = || {
        let store = rusqlite::Connection::open(&path).unwrap();
        ["names", "records"].map(|table| {
            let count = format!("SELECT count(*) FROM {table}");
            store.query_row(&count, [], |row| row.get::<_, i64>(0)).unwrap()
        })
    };
    assert_eq!(rows(), [2, 2]);
    give_up_prefix(trial()).await.unwrap();
    assert_eq!(rows(), [1, 1]);
    let refused = give_up_prefix(Locks::builder().node(SqliteNode::new(&path))).await.unwrap_err();
    assert!(matches!(refused, FleetError::Guarded { .. }), "{refused}");
    kept.release().await.unwrap();
}
