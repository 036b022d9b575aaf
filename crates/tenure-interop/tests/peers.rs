//! The short form of `cargo xtask interop`, a test for each peer. A peer that is missing is skipped
//! and named, unless `TENURE_PEERS_REQUIRED` is set, as `cargo xtask test --all` does.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]
#![allow(clippy::print_stdout, reason = "what was seen is worth knowing")]

use std::sync::{Mutex, PoisonError};

use tenure_interop::{Installed, Options, PEERS, run};
use tenure_testkit::skip;

/// Each runs several processes: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

fn installed() -> Installed {
    let program = std::env::current_exe().unwrap();
    Installed::beside(&program, env!("CARGO_BIN_EXE_tenure-driver").into())
}

/// All cases of the short form.
#[track_caller]
fn shares_locks(peer: &str) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let options = Options { peers: vec![peer.to_owned()], quick: true, ..Options::default() };
    let report = run(&installed(), &options, &mut |line| println!("{line}"));
    println!("{report}");
    assert!(report.passed(), "{report}");
    for (peer, why) in &report.not_run {
        assert!(std::env::var_os("TENURE_PEERS_REQUIRED").is_none(), "{peer} not run: {why}");
        skip(&format!("{peer} not run: {why}"));
    }
    assert_eq!(report.rows.is_empty(), !report.not_run.is_empty(), "{report}");
}

#[test]
fn redlock_rb_and_we_share_locks() {
    shares_locks("redlock-rb");
}

#[test]
fn redlock_php_and_we_share_locks() {
    shares_locks("redlock-php");
}

#[test]
fn redsync_and_we_share_locks() {
    shares_locks("redsync");
}

#[test]
fn redisson_and_we_share_locks_on_one_node() {
    shares_locks("redisson");
}

#[test]
fn a_redlock_of_redisson_and_we_share_locks_on_five_nodes() {
    shares_locks("redisson-redlock");
}

#[test]
fn yii2_and_we_share_locks_under_its_keys() {
    shares_locks("yii2");
}

#[test]
fn all_with_a_string_at_the_name_share_locks_at_once() {
    shares_locks("together");
}

#[test]
fn every_peer_has_a_test() {
    let tests = include_str!("peers.rs");
    for peer in PEERS {
        assert!(tests.contains(&format!("shares_locks(\"{}\")", peer.name)), "{} has none", peer.name);
    }
}

#[test]
fn a_peer_that_is_missing_broken_or_of_another_version_has_one_line_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let peer = PEERS.iter().find(|peer| peer.name == "redlock-rb").unwrap();
    let installed = Installed { peers: Some(folder.path().to_owned()), ..installed() };
    if tenure_testkit::installed("ruby").is_none() {
        return;
    }
    let missing = installed.check(peer).unwrap_err();
    assert!(missing.starts_with("redlock-rb-2.0.6 is missing"), "{missing}");
    for part in ["redlock-rb-2.0.6/lib", "redis-client-0.30.0/lib"] {
        std::fs::create_dir_all(folder.path().join(part)).unwrap();
    }
    let library = folder.path().join("redlock-rb-2.0.6/lib/redlock.rb");
    std::fs::write(&library, "raise 'broken'").unwrap();
    let broken = installed.check(peer).unwrap_err();
    assert!(broken.starts_with("redlock-rb 2.0.6 does not start"), "{broken}");
    assert!(!broken.contains('\n'), "{broken}");
    let other = "module Redlock; VERSION = '2.0.5'; class Client; def initialize(*); end; end; end";
    std::fs::write(&library, other).unwrap();
    assert_eq!(installed.check(peer).unwrap_err(), "version 2.0.5 found, 2.0.6 expected");
}
