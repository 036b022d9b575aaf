//! The file: what it says, who may write it, and what becomes of it when a writer is killed.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tenure_core::NodeTime;
use tenure_core::trust::{KnownLife, LIVES_MAX, Nonce};

use super::book::PLACES_MAX;
use super::*;

/// Who owns nothing of ours, if we may become anybody.
const NOBODY: u32 = 65_534;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn of(path: &Path, nodes: &[&str]) -> KnownNodes {
    let part = |place: &str| place.rfind('/').map_or("", |at| &place[at..]).to_owned();
    let subject = |place: &&str| Subject { place: (*place).to_owned(), part: part(place) };
    let subjects = nodes.iter().map(subject).collect();
    KnownNodes { location: Location::at(path), prefix: "tenure:".to_owned(), subjects }
}

fn life(number: u64, process: &str) -> KnownLife {
    let process = Some(process).filter(|process| !process.is_empty()).map(Into::into);
    KnownLife { created: NodeTime::from_micros(number), nonce: Nonce::new(number), process }
}

fn met(lives: impl IntoIterator<Item = KnownLife>) -> NodeMemory {
    NodeMemory { lives: lives.into_iter().collect(), ours: true, ..NodeMemory::default() }
}

fn numbers(memory: &NodeMemory) -> Vec<u64> {
    memory.lives.iter().map(|life| life.created.as_micros()).collect()
}

/// What one that comes later finds, node by node.
fn found(known: &KnownNodes) -> Vec<Vec<u64>> {
    known.recall().unwrap().memory.iter().map(numbers).collect()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_one_client_has_met_the_next_one_knows() {
    let folder = folder();
    let path = folder.path().join("known_nodes");
    let known = of(&path, &["a:1/0", "b:1/0"]);
    assert_eq!(found(&known), [Vec::<u64>::new(), vec![]]);
    assert!(!path.exists(), "looking writes nothing");
    let recalled = known.remember(&[met([life(1, "p")]), met([])]).unwrap();
    assert_eq!(numbers(&recalled.memory[0]), [1]);
    let other = of(&path, &["b:1/0", "a:1/0"]);
    other.remember(&[met([life(2, "")]), met([life(3, "q")])]).unwrap();
    assert_eq!(found(&known), [vec![1, 3], vec![2]]);
    assert_eq!(found(&of(&path, &["c:1/0"])), [vec![0; 0]]);
    assert_eq!((mode(&path), mode(&folder.path().join("known_nodes.lock"))), (0o600, 0o600));
}

#[test]
fn nothing_is_written_when_nothing_is_new() {
    let folder = folder();
    let path = folder.path().join("known_nodes");
    let known = of(&path, &["a:1/0"]);
    known.remember(&[met([life(1, "p")])]).unwrap();
    let before = path.metadata().unwrap();
    std::fs::remove_file(folder.path().join("known_nodes.lock")).unwrap();
    known.remember(&[met([life(1, "p")])]).unwrap();
    known.recall().unwrap();
    let after = path.metadata().unwrap();
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "not even a lock");
}

#[test]
fn a_node_is_known_by_its_address_or_by_its_server_process_and_database() {
    let folder = folder();
    let path = folder.path().join("known_nodes");
    of(&path, &["a:1/0"]).remember(&[met([life(1, "p"), life(2, "q")])]).unwrap();
    let known = |place: &str, process: &str| {
        let known = of(&path, &[place]);
        let book = file::read(&known.location).unwrap();
        let sent = met([life(9, process)]);
        numbers(&book.about("tenure:", &known.subjects[0], &sent))
    };
    assert_eq!(known("a:1/0", "other"), [1, 2], "by its address");
    assert_eq!(known("alias:1/0", "q"), [2], "by its process");
    assert_eq!(known("alias:1/3", "q"), [0; 0], "another database of it");
    assert_eq!(known("alias:1/0", ""), [0; 0], "nobody could see the process");
    let other_prefix = KnownNodes { prefix: "other:".to_owned(), ..of(&path, &["a:1/0"]) };
    assert_eq!(found(&other_prefix), [vec![0; 0]]);
}

#[test]
fn a_foreign_record_is_kept_until_the_node_is_seen_to_be_ours() {
    let folder = folder();
    let path = folder.path().join("known_nodes");
    let known = of(&path, &["a:1/0"]);
    let foreign = |text: &str| NodeMemory { foreign: Some(text.into()), ..NodeMemory::default() };
    let text = "00 tenure-2 p\tq\n100%0a% nodes=ü";
    known.remember(&[foreign(text)]).unwrap();
    assert_eq!(known.recall().unwrap().memory[0].foreign.as_deref(), Some(text));
    known.remember(&[NodeMemory::default()]).unwrap();
    assert_eq!(known.recall().unwrap().memory[0].foreign.as_deref(), Some(text), "one that cannot see it");
    known.remember(&[foreign("later")]).unwrap();
    assert_eq!(known.recall().unwrap().memory[0].foreign.as_deref(), Some("later"));
    known.remember(&[met([life(1, "p")])]).unwrap();
    assert_eq!(known.recall().unwrap().memory[0].foreign, None);
}

#[test]
fn the_file_is_bounded_and_what_was_just_met_is_never_dropped() {
    let folder = folder();
    let path = folder.path().join("known_nodes");
    let known = of(&path, &["a:1/0"]);
    let most = LIVES_MAX as u64;
    known.remember(&[met((100..100 + most).map(|number| life(number, "p")))]).unwrap();
    // By a clock that was set back the present life is the oldest.
    known.remember(&[met([life(1, "p")])]).unwrap();
    let kept = found(&known).remove(0);
    assert_eq!((kept.len() as u64, kept[0], kept[1], kept.last()), (most, 1, 101, Some(&(99 + most))));

    let places: Vec<String> = (0..PLACES_MAX as u64 + 40).map(|number| format!("n{number}:1/0")).collect();
    for (number, place) in (0..).zip(&places) {
        of(&path, &[place]).remember(&[met([life(1_000 + number, "p")])]).unwrap();
    }
    let nodes = file::read(&known.location).unwrap().nodes;
    assert_eq!(nodes.len(), PLACES_MAX);
    assert!(!nodes.contains_key(&("tenure:".to_owned(), places[0].clone())), "the oldest is gone");
    assert!(nodes.contains_key(&("tenure:".to_owned(), places.last().unwrap().clone())));
    assert!(path.metadata().unwrap().len() < 100_000, "a small file");
}

#[test]
fn a_damaged_file_is_put_aside_and_said_to_be() {
    let folder = folder();
    let path = folder.path().join("known_nodes");
    let known = of(&path, &["a:1/0", "b:1/0"]);
    known.remember(&[met([life(1, "p")]), met([life(2, "q")])]).unwrap();
    let whole = std::fs::read(&path).unwrap();
    // Cut off anywhere, and with any byte changed.
    for at in 0..whole.len() {
        let (cut, mut changed) = (&whole[..at], whole.clone());
        changed[at] ^= 1;
        for bytes in [cut, &changed] {
            let read = String::from_utf8(bytes.to_vec()).map(|text| text::read(&text));
            let is_refused = !matches!(read, Ok(Ok(_)));
            assert!(is_refused, "byte {at}: {}", String::from_utf8_lossy(bytes));
        }
    }
    for bytes in [&whole[..whole.len() / 2], b"", b"\xff\xfe", b"something else\n"] {
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(found(&known), [Vec::<u64>::new(), vec![]]);
        let recalled = known.remember(&[met([life(3, "p")]), met([])]).unwrap();
        assert!(recalled.complaint.unwrap().contains("was damaged"));
        assert_eq!(std::fs::read(folder.path().join("known_nodes.damaged")).unwrap(), bytes);
        assert_eq!(found(&known), [vec![3], vec![]], "it goes on with a new one");
    }
}

#[test]
fn a_file_of_a_newer_version_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("known_nodes");
    let text = "tenure-known-nodes\t2\nsomething new\n";
    std::fs::write(&path, text).unwrap();
    let known = of(&path, &["a:1/0"]);
    assert!(known.recall().unwrap_err().contains("newer version"));
    assert!(known.remember(&[met([life(1, "p")])]).unwrap_err().contains("newer version"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_file_that_others_could_have_written_is_not_believed() {
    let folder = folder();
    let path = folder.path().join("known_nodes");
    let known = of(&path, &["a:1/0"]);
    known.remember(&[met([life(1, "p")])]).unwrap();
    let refused = |why: &str| {
        for said in [known.recall().unwrap_err(), known.remember(&[met([life(2, "p")])]).unwrap_err()] {
            assert!(said.contains(why), "{said}");
            assert!(said.contains(folder.path().to_str().unwrap()), "{said}");
        }
    };
    for mode in [0o602, 0o620] {
        set_mode(&path, mode);
        refused("it is writable by others");
    }
    set_mode(&path, 0o600);
    set_mode(folder.path(), 0o777);
    refused("is world-writable");
    set_mode(folder.path(), 0o700);
    let real = folder.path().join("elsewhere");
    std::fs::rename(&path, &real).unwrap();
    symlink(&real, &path).unwrap();
    refused("symbolic link");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    refused("not a file");
    std::fs::remove_dir(&path).unwrap();
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    refused("not a file");
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(&real, &path).unwrap();
    if std::os::unix::fs::chown(&path, Some(NOBODY), None).is_ok() {
        refused("belongs to another user");
        std::os::unix::fs::chown(&path, Some(crate::machine::folder::own_id()), None).unwrap();
    }
    assert_eq!(found(&known), [[1]], "nothing was changed");
}

#[test]
fn in_a_folder_that_is_shared_with_a_group_all_its_members_share_the_file() {
    let folder = folder();
    set_mode(folder.path(), 0o2770);
    let path = folder.path().join("known_nodes");
    let known = of(&path, &["a:1/0"]);
    known.remember(&[met([life(1, "p")])]).unwrap();
    assert_eq!((mode(&path), mode(&folder.path().join("known_nodes.lock"))), (0o660, 0o660));
    if std::os::unix::fs::chown(&path, Some(NOBODY), None).is_ok() {
        known.remember(&[met([life(2, "p")])]).unwrap();
        assert_eq!(found(&known), [[1, 2]]);
    }
}

#[test]
fn the_default_folder_is_made_for_this_user_alone() {
    let folder = folder();
    let path = folder.path().join("state/tenure/known_nodes");
    let known = KnownNodes {
        location: Location { path: Some(path), private: true },
        ..of(Path::new("/"), &["a:1/0"])
    };
    assert_eq!(found(&known), [vec![0; 0]]);
    assert!(!folder.path().join("state").exists(), "looking makes nothing");
    known.remember(&[met([life(1, "p")])]).unwrap();
    assert_eq!(mode(&folder.path().join("state/tenure")), 0o700);
    set_mode(&folder.path().join("state/tenure"), 0o755);
    assert!(known.recall().unwrap_err().contains("is accessible to others"));
}

#[test]
fn only_those_who_have_something_new_wait_for_another_writer() {
    let folder = folder();
    let path = folder.path().join("known_nodes");
    let known = of(&path, &["a:1/0"]);
    known.remember(&[met([life(1, "p")])]).unwrap();
    let lock = std::fs::File::open(folder.path().join("known_nodes.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(found(&known), [[1]], "reading needs no lock");
    known.remember(&[met([life(1, "p")])]).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| known.remember(&[met([life(2, "p")])]).unwrap());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        assert_eq!(found(&known), [[1]]);
        lock.unlock().unwrap();
        assert_eq!(numbers(&waiting.join().unwrap().memory[0]), [1, 2]);
    });
    // Whoever removes the lock does not let two write at once.
    lock.lock().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| known.remember(&[met([life(3, "p")])]).unwrap());
        std::thread::sleep(Duration::from_millis(50));
        std::fs::remove_file(folder.path().join("known_nodes.lock")).unwrap();
        known.remember(&[met([life(4, "p")])]).unwrap();
        lock.unlock().unwrap();
        waiting.join().unwrap();
    });
    assert_eq!(found(&known), [[1, 2, 3, 4]]);
}

/// Which file the process below writes, if it is to, and who it is.
const WRITER: &str = "TENURE_TEST_KNOWN_NODES_WRITER";

/// Not a test, but what the processes of the next one do: each writes down one life after another,
/// and says each that is on disk.
#[test]
fn writes_until_it_is_killed() {
    let Ok(told) = std::env::var(WRITER) else { return };
    let (number, path) = told.split_once(' ').unwrap();
    let number: u64 = number.parse().unwrap();
    let known = of(Path::new(path), &[&format!("n{number}:1/0"), "common:1/0"]);
    for round in 0_u64.. {
        let life = life(number * 1_000_000_000 + round, "p");
        let recalled = known.remember(&[met([life.clone()]), met([life.clone()])]).unwrap();
        assert_eq!(recalled.complaint, None);
        assert!(recalled.memory.iter().all(|memory| memory.lives.contains(&life)));
        println!("kept {}", life.created.as_micros());
    }
}

struct Writer {
    number: u64,
    process: Child,
    said: PathBuf,
}

impl Writer {
    fn start(number: u64, path: &Path) -> Self {
        let (_, tests) = module_path!().split_once("::").unwrap();
        let said = path.with_file_name(format!("said-{number}"));
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("{tests}::writes_until_it_is_killed"), "--nocapture"])
            .env(WRITER, format!("{number} {}", path.display()))
            .stdout(std::fs::File::create(&said).unwrap())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Self { number, process, said }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// The lives that it said were kept, in order; the last line may be cut off.
    fn kept(&self) -> Vec<u64> {
        let said = std::fs::read_to_string(&self.said).unwrap();
        let whole = said.rfind('\n').map_or("", |end| &said[..end]);
        whole
            .lines()
            .filter_map(|line| line.split("kept ").nth(1))
            .map(|life| life.parse().unwrap())
            .collect()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Writers at the same time, killed at any moment, one of them after the other: nothing that was
/// said to be on disk is lost, and the file is whole all the time. `TENURE_WITNESS_RUNS` for more.
#[test]
fn writers_that_are_killed_at_any_moment_lose_nothing_that_was_kept() {
    let runs = std::env::var("TENURE_WITNESS_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(12);
    let folder = folder();
    let path = folder.path().join("known_nodes");
    let mut writers: Vec<Writer> = (1..=4).map(|number| Writer::start(number, &path)).collect();
    let (mut next, mut begun) = (5, 0);
    for run in 0..runs {
        let victim = run % writers.len();
        let deadline = Instant::now() + Duration::from_secs(60);
        while writers[victim].kept().len() < 3 {
            assert!(Instant::now() < deadline, "it writes nothing");
            // Read as others do, while they write.
            let recalled = of(&path, &["common:1/0"]).recall().unwrap();
            assert!(begun == 0 || !recalled.memory[0].lives.is_empty(), "a damaged file says nothing");
            begun = recalled.memory[0].lives.len();
        }
        // Somewhere in a write.
        std::thread::sleep(Duration::from_micros(u64::try_from(run).unwrap() * 137 % 3_000));
        let mut killed = std::mem::replace(&mut writers[victim], Writer::start(next, &path));
        next += 1;
        killed.kill();
        let kept = killed.kept();
        let found = found(&of(&path, &[&format!("n{}:1/0", killed.number)])).remove(0);
        let found: BTreeSet<u64> = found.into_iter().collect();
        for life in kept.iter().rev().take(LIVES_MAX - 1) {
            assert!(found.contains(life), "life {life} of writer {} is gone: {found:?}", killed.number);
        }
    }
}
