//! What a store has acknowledged is on disk: whoever opens a copy of its files finds it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure::{Builder, Guard, Locks, Renewal, SqliteNode};

/// The files of a store, as a machine that loses its power at this moment keeps them. The third
/// one, shared memory, is made anew.
struct Copy {
    database: Vec<u8>,
    log: Vec<u8>,
}

impl Copy {
    fn of(path: &Path) -> Self {
        Self { database: std::fs::read(path).unwrap(), log: std::fs::read(log_of(path)).unwrap() }
    }

    /// Puts it elsewhere, with so much of the log.
    fn put(&self, path: &Path, log_bytes: usize) {
        let _ = std::fs::remove_file(format!("{}-shm", path.display()));
        std::fs::write(path, &self.database).unwrap();
        std::fs::write(log_of(path), &self.log[..log_bytes]).unwrap();
    }
}

fn log_of(path: &Path) -> PathBuf {
    format!("{}-wal", path.display()).into()
}

fn manager(path: &Path) -> Builder {
    Locks::builder().node(SqliteNode::new(path)).fleet("copies")
}

async fn acquire(locks: &Locks, name: usize) -> Guard {
    let lock = locks.lock(name.to_string()).ttl(Duration::from_secs(60)).renewal(Renewal::Off);
    lock.try_acquire().await.unwrap().expect("free")
}

fn held(path: &Path) -> usize {
    let database = rusqlite::Connection::open(path).unwrap();
    let sound: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let count = "SELECT count(*) FROM names WHERE owner IS NOT NULL";
    usize::from(database.query_row(count, [], |row| row.get::<_, u16>(0)).unwrap())
}

#[tokio::test]
async fn a_copy_made_right_after_each_of_1000_acknowledged_acquires_has_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copied) = (folder.path().join("locks.db"), folder.path().join("copy.db"));
    let locks = manager(&path).build().unwrap();
    let mut guards = vec![];
    for name in 0..1_000 {
        guards.push(acquire(&locks, name).await);
        let copy = Copy::of(&path);
        copy.put(&copied, copy.log.len());
        assert_eq!(held(&copied), name + 1);
        if name % 100 == 0 {
            // A copy that is not written again: a manager has its files open for a moment after it
            // is dropped.
            let used = folder.path().join(format!("used-{name}.db"));
            copy.put(&used, copy.log.len());
            let other = manager(&used).build().unwrap();
            assert!(other.lock(name.to_string()).try_acquire().await.unwrap().is_none(), "held in the copy");
        }
    }
}

#[tokio::test]
async fn a_log_that_is_cut_inside_what_was_not_acknowledged_opens_cleanly_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copied) = (folder.path().join("locks.db"), folder.path().join("copy.db"));
    let locks = manager(&path).build().unwrap();
    let mut guards = vec![];
    let mut cuts = 0;
    for name in 0..20 {
        let before = log_of(&path).metadata().map_or(0, |log| usize::try_from(log.len()).unwrap());
        guards.push(acquire(&locks, name).await);
        let copy = Copy::of(&path);
        // The log begins anew now and then.
        if name == 0 || before == 0 || copy.log.len() <= before {
            continue;
        }
        let written = copy.log.len() - before;
        for cut in [1, 23, 24, 25, 4_119, 4_120, written / 2, written - 4_097, written - 4_096, written - 1] {
            copy.put(&copied, before + cut);
            assert_eq!(held(&copied), name, "cut {cut} bytes behind {before} of {}", copy.log.len());
            cuts += 1;
        }
    }
    assert!(cuts >= 100, "only {cuts} cuts");
}
