//! The fenced file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tempfile::TempDir;
use tenure::fenced::{FencedFile, FencedFileClaim, FencedFileError};
use tenure::{Fence, Locks};
use tenure_testkit::Client;

use crate::interleaved::{CLAIM_FIRST, Resource, all_orders_of_two, run};

const FENCE: u64 = 1_700_000_000_000_000;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("doc");
    (folder, path)
}

fn is_stale<T>(result: &Result<T, FencedFileError>) -> bool {
    matches!(result, Err(FencedFileError::Stale { .. }))
}

/// A file and the claims of its holders.
struct Claims {
    file: FencedFile,
    claims: BTreeMap<Fence, FencedFileClaim>,
}

impl Resource for Claims {
    fn claim(&mut self, fence: Fence) -> bool {
        let claim = self.file.claim(fence);
        let stale = is_stale(&claim);
        self.claims.extend((!stale).then(|| (fence, claim.unwrap())));
        !stale
    }

    fn read(&mut self, fence: Fence) -> Option<String> {
        let list = self.claims[&fence].read();
        (!is_stale(&list)).then(|| String::from_utf8(list.unwrap().unwrap_or_default()).unwrap())
    }

    fn write(&mut self, fence: Fence, list: &str) -> bool {
        let write = self.claims[&fence].write(list.as_bytes());
        let stale = is_stale(&write);
        if !stale {
            write.unwrap();
        }
        !stale
    }
}

#[tokio::test]
async fn a_holder_paused_after_its_read_is_refused_by_the_file() {
    let ((_folder, path), locks) = (folder(), Locks::memory());
    let file = FencedFile::new(&path);
    let guard = locks.lock("doc").acquire().await.unwrap();
    let old = file.claim(guard.fence()).unwrap();
    assert_eq!(old.read().unwrap(), None, "there is none yet");
    drop(guard); // It ran out while the holder was paused.

    let guard = locks.lock("doc").acquire().await.unwrap();
    let new = file.claim(guard.fence()).unwrap();
    let error = old.write(b"old").unwrap_err();
    let FencedFileError::Stale { seen, ours, .. } = &error else { panic!("{error}") };
    assert_eq!((*seen, *ours), (new.fence(), old.fence()), "late, and before the new holder has written");
    assert!(error.to_string().contains("doc was claimed by a later holder"), "{error}");
    new.write(b"new").unwrap();
    file.claim(guard.fence()).unwrap().write(b"newer").unwrap(); // An equal fence is the same holder.
    assert!(is_stale(&old.read()) && is_stale(&old.write(b"old")) && is_stale(&file.claim(old.fence())));
    assert_eq!(new.read().unwrap().as_deref(), Some(&b"newer"[..]));
    assert_eq!(fs::read(&path).unwrap(), b"newer", "it is a plain file for everybody else");
}

#[tokio::test]
async fn a_lock_without_fencing_is_refused_by_the_file() {
    let (_folder, path) = folder();
    let guard = Locks::memory().lock("doc").unfenced().acquire().await.unwrap();
    let error = FencedFile::new(&path).claim(guard.fence()).unwrap_err();
    assert!(matches!(error, FencedFileError::Unfenced { .. }), "{error}");
    assert!(error.to_string().contains("unfenced()"), "{error}");
}

#[test]
fn a_file_that_was_there_before_keeps_its_contents_and_its_rights() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, path) = folder();
    fs::write(&path, "before").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let claim = FencedFile::new(&path).claim(Fence::new(FENCE)).unwrap();
    assert_eq!(claim.read().unwrap().as_deref(), Some(&b"before"[..]));
    claim.write(b"after").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn two_paths_to_one_file_are_one_resource() {
    let (folder, path) = folder();
    fs::write(&path, "x").unwrap();
    let other = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &other).unwrap();
    let old = FencedFile::new(&path).claim(Fence::new(FENCE)).unwrap();
    let new = FencedFile::new(&other).claim(Fence::new(FENCE + 1)).unwrap();
    assert!(is_stale(&old.write(b"old")));
    new.write(b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert!(fs::symlink_metadata(&other).unwrap().is_symlink());
}

#[test]
fn a_fence_that_was_removed_or_damaged_is_not_made_up() {
    let (folder, path) = folder();
    let file = FencedFile::new(&path);
    let claim = file.claim(Fence::new(FENCE)).unwrap();
    fs::write(folder.path().join("doc.fence"), "17x").unwrap();
    let error = claim.write(b"x").unwrap_err();
    assert!(matches!(error, FencedFileError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("doc.fence does not contain a fence"), "{error}");
    fs::remove_file(folder.path().join("doc.fence")).unwrap();
    let error = claim.write(b"x").unwrap_err();
    assert!(matches!(error, FencedFileError::Forgotten { .. }), "{error}");
    file.claim(Fence::new(FENCE)).unwrap().write(b"x").unwrap();
}

#[test]
fn errors_of_the_system_name_the_file() {
    let (folder, _) = folder();
    let error = FencedFile::new(folder.path().join("none/doc")).claim(Fence::new(FENCE)).unwrap_err();
    assert!(matches!(error, FencedFileError::Io { .. }), "{error}");
    assert!(error.to_string().contains("/none cannot be found"), "{error}");
}

/// Somebody who was paused while it replaced the file keeps the others out, but not for ever.
#[test]
fn a_file_that_stays_busy_is_an_error() {
    let (folder, path) = folder();
    let limit = Duration::from_millis(100);
    let claim = FencedFile::new(&path).busy_limit(limit).claim(Fence::new(FENCE)).unwrap();
    let other = fs::File::open(folder.path().join("doc.fence.lock")).unwrap();
    other.lock().unwrap();
    let start = Instant::now();
    let error = claim.write(b"x").unwrap_err();
    assert!(matches!(error, FencedFileError::Busy { .. }), "{error}");
    assert!(start.elapsed() >= limit);
    drop(other);
    claim.write(b"x").unwrap();
}

/// What a crash in the middle of a replacement leaves is never taken for contents.
#[test]
fn a_half_written_replacement_is_ignored() {
    let (folder, path) = folder();
    let file = FencedFile::new(&path);
    file.claim(Fence::new(FENCE)).unwrap().write(b"whole").unwrap();
    fs::write(folder.path().join("doc.fence.tmp"), "ha").unwrap();
    let claim = file.claim(Fence::new(FENCE + 1)).unwrap();
    assert_eq!(claim.read().unwrap().as_deref(), Some(&b"whole"[..]));
    claim.write(b"w").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"w");
}

#[test]
fn in_every_order_of_two_holders_the_file_loses_no_update() {
    for turns in all_orders_of_two(CLAIM_FIRST.len()) {
        let (_folder, path) = folder();
        let mut claims = Claims { file: FencedFile::new(path), claims: BTreeMap::new() };
        let outcome = run(&mut claims, CLAIM_FIRST, &turns);
        assert!(outcome.lost.is_empty() && outcome.is_in_order(), "{turns:?}: {outcome:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_update_of_many_holders_of_a_file_is_lost(turns in prop::collection::vec(0_usize..6, 0..60)) {
        let (_folder, path) = folder();
        let mut claims = Claims { file: FencedFile::new(path), claims: BTreeMap::new() };
        let outcome = run(&mut claims, CLAIM_FIRST, &turns);
        prop_assert!(outcome.lost.is_empty() && outcome.is_in_order(), "{:?}", outcome);
    }
}

/// Threads at once, with nothing but the fences between them.
#[test]
fn no_increment_of_threads_that_all_believe_to_hold_the_lock_is_lost() {
    const ACCEPTED: usize = 100;
    let (_folder, path) = folder();
    let (next, accepted) = (AtomicU64::new(FENCE), Mutex::new(vec![]));
    let increment = || {
        while accepted.lock().unwrap().len() < ACCEPTED {
            let fence = Fence::new(next.fetch_add(1, SeqCst));
            let increment = || -> Result<u64, FencedFileError> {
                let claim = FencedFile::new(&path).claim(fence)?;
                let number =
                    claim.read()?.map_or(0, |text| String::from_utf8(text).unwrap().parse().unwrap());
                claim.write((number + 1_u64).to_string().as_bytes())?;
                Ok(number + 1)
            };
            let number = increment();
            if !is_stale(&number) {
                accepted.lock().unwrap().push((number.unwrap(), fence));
            }
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(increment))));
    let mut accepted = accepted.into_inner().unwrap();
    accepted.sort_unstable();
    let numbers: Vec<u64> = accepted.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=accepted.len() as u64).collect::<Vec<_>>(), "each number was written once");
    assert!(accepted.is_sorted_by_key(|(_, fence)| *fence), "accepted fences never decrease");
    assert_eq!(fs::read_to_string(&path).unwrap(), accepted.len().to_string());
}

/// The variable that makes this program a writer of the file it names.
const WRITER: &str = "TENURE_FENCED_FILE_WRITER";

/// Contents that show whether they are whole, one letter many times; others for the next fence.
fn contents(fence: u64) -> Vec<u8> {
    let letter = b'a' + u8::try_from(fence % 26).unwrap();
    vec![letter; 50_000 + usize::try_from(fence % 7).unwrap() * 10_000]
}

#[test]
fn a_process_that_was_started_as_a_writer_writes() {
    let Ok(path) = std::env::var(WRITER) else { return };
    let seen = fs::read_to_string(format!("{path}.fence")).unwrap_or(FENCE.to_string());
    let first = seen.trim_end().parse::<u64>().unwrap() + 1;
    let file = FencedFile::new(path);
    for fence in first.. {
        file.claim(Fence::new(fence)).unwrap().write(&contents(fence)).unwrap();
    }
}

#[test]
fn a_writer_killed_at_any_moment_leaves_the_old_contents_or_the_new() {
    let (_folder, path) = folder();
    let program = std::env::current_exe().unwrap();
    let arguments = ["file::a_process_that_was_started_as_a_writer_writes", "--exact", "--quiet"];
    let environment = [(WRITER, path.to_str().unwrap())];
    let (mut fences, mut changes) = (vec![], 0);
    for round in 0..20_u64 {
        let before = whole(&path);
        let mut writer = Client::start_quiet(program.to_str().unwrap(), arguments, environment);
        let start = Instant::now();
        while whole(&path) == before && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros(round * 300));
        writer.kill();
        let (after, fence) = (whole(&path), fs::read_to_string(path.with_extension("fence")).unwrap());
        changes += usize::from(after != before);
        fences.push(fence.trim_end().parse::<u64>().unwrap());
        // Nothing stays locked.
        FencedFile::new(&path).claim(Fence::new(fences[fences.len() - 1])).unwrap().read().unwrap();
    }
    assert!(fences.is_sorted(), "{fences:?}");
    assert_eq!(changes, 20, "every writer came to write");
}

/// The letter and the length of the contents, which must be whole.
fn whole(path: &Path) -> Option<(u8, usize)> {
    let contents = fs::read(path).ok()?;
    let first = *contents.first()?;
    assert!(contents.iter().all(|byte| *byte == first), "a mixture");
    assert!(contents.len() >= 50_000 && contents.len() % 10_000 == 0, "cut off: {}", contents.len());
    Some((first, contents.len()))
}
