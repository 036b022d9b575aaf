//! Pictures of the screen, and what keys do to it.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::report::{Answer, Report, State};
use crate::sight::Change;

/// Half a second more, so that a slow test shows the same.
const fn secs(seconds: u64) -> Duration {
    Duration::from_millis(seconds * 1_000 + 500)
}

fn lock(name: &str, label: &str) -> Lock {
    Lock::sample(name, label, secs(65), secs(300))
}

fn held(lock: Lock) -> Change {
    Change { name: lock.name.clone(), before: None, now: Some(lock), passed_on_after: None }
}

fn node(letter: char) -> Node {
    Node {
        node: format!("redis://{letter}:6379"),
        reachable: true,
        votes: true,
        version: Some("redis 7.2.4".to_owned()),
        persistence: "always".to_owned(),
        clock_offset_us: Some(-1_250),
        round_trip: Some(Duration::from_micros(420)),
        ..Node::default()
    }
}

/// Three locks on three nodes, one of which does not vote.
fn app() -> App {
    let mut app = App::new(true);
    let waited = Lock { waiters: Some(3), margin: Some(0), ..lock("orders", "7@web-1 settle") };
    let two = Lock { others: 2, disagree: 2, ..lock("two holders", "9@web-2") };
    let nightly = Lock { age_exact: false, ..lock("backup\u{1b}[2J", "12@db-1 nightly\u{202e}x") };
    app.take(News::Locks(vec![held(waited), held(two), held(nightly)]));
    let out = Node {
        votes: false,
        quarantine_left: Some(secs(61)),
        findings: vec!["warn: it may have forgotten locks. Wait".to_owned()],
        ..node('c')
    };
    app.take(News::Nodes(vec![node('a'), node('b'), out]));
    app.take(News::Progress(Progress { complete: true, ..Progress::default() }));
    app
}

fn picture_of(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(app, frame)).unwrap();
    terminal.backend().to_string()
}

fn picture(app: &App) -> String {
    picture_of(app, 90, 14)
}

fn press(app: &mut App, keys: &str) -> Do {
    keys.chars().map(|key| app.press(Key::Char(key))).last().unwrap_or(Do::Nothing)
}

#[test]
fn the_list_shows_every_lock_and_how_the_fleet_is() {
    insta::assert_snapshot!("list", picture(&app()));
}

#[test]
fn what_is_not_complete_or_empty_says_so() {
    let mut app = App::new(false);
    insta::assert_snapshot!("nothing_known", picture(&app));
    app.take(News::Progress(Progress { complete: false, looked_at: Some(412_000), of: Some(1_000_231) }));
    app.take(News::Nodes(vec![node('a')]));
    insta::assert_snapshot!("incomplete", picture(&app));
    app.take(News::Progress(Progress { complete: true, ..Progress::default() }));
    insta::assert_snapshot!("no_locks", picture(&app));
}

#[test]
fn a_service_that_is_gone_makes_the_picture_stale() {
    let mut app = app();
    app.take(News::Stale("lost contact with the service".to_owned()));
    assert!(picture(&app).contains("STALE for"), "{}", picture(&app));
    app.take(News::Fresh);
    assert!(!picture(&app).contains("STALE"));
}

#[test]
fn a_terminal_that_is_too_small_is_told_what_is_needed() {
    assert!(picture_of(&app(), 40, 8).contains("60 columns and 10"), "{}", picture_of(&app(), 40, 8));
    insta::assert_snapshot!("narrow", picture_of(&app(), 60, 10));
}

#[test]
fn locks_are_sorted_and_filtered_and_the_cursor_stays_on_its_lock() {
    let mut app = app();
    let names = |app: &App| app.rows().iter().map(|lock| lock.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&app)[1..], ["orders", "two holders"]);
    app.press(Key::Down);
    assert_eq!(app.cursor.as_deref(), Some("orders"));
    press(&mut app, "sss");
    assert_eq!((app.sort, names(&app)[0].as_str()), (Sort::Waiters, "orders"));
    press(&mut app, "r");
    assert_eq!(names(&app)[2], "orders");
    assert_eq!(app.cursor.as_deref(), Some("orders"));
    app.press(Key::End);
    assert_eq!(app.cursor.as_deref(), Some("orders"));
    press(&mut app, "/web-2");
    app.press(Key::Enter);
    assert_eq!(names(&app), ["two holders"]);
    assert_eq!(press(&mut app, "q"), Do::Quit);
    app.press(Key::Escape);
    assert_eq!(names(&app).len(), 3);
}

#[test]
fn one_lock_is_shown_in_full_with_what_each_node_says() {
    let mut app = app();
    app.cursor = Some("two holders".to_owned());
    assert_eq!(app.press(Key::Enter), Do::Ask("two holders".to_owned()));
    let answer = |letter: char, label: &str| Answer {
        node: format!("redis://{letter}:6379"),
        votes: true,
        state: State::Held,
        label: Some(label.to_owned()),
        left: Some(secs(300)),
        waiters: Some(0),
        error: None,
        distrust: None,
        is_misconfigured: false,
    };
    let lost = Answer {
        state: State::Unknown,
        error: Some("no answer in time".to_owned()),
        label: None,
        left: None,
        ..answer('c', "")
    };
    app.tell(Report {
        name: "two holders".to_owned(),
        state: State::Held,
        label: None,
        left: None,
        fence: None,
        waiters: None,
        line: vec![],
        circles: vec![],
        readers: None,
        kind: None,
        owner: None,
        holds: None,
        is_foreign: false,
        agree: vec![],
        disagree: vec!["redis://b:6379".to_owned()],
        nodes: vec![answer('a', "9@web-2"), answer('b', "4@web-3"), lost],
    });
    insta::assert_snapshot!("one_lock", picture_of(&app, 90, 18));
    let gone = Change { name: "two holders".to_owned(), before: None, now: None, passed_on_after: None };
    assert_eq!(app.take(News::Locks(vec![gone])), Some("two holders".to_owned()), "it is asked for again");
    assert!(picture(&app).contains("free"));
}

#[test]
fn a_lock_is_taken_only_where_that_is_allowed_and_after_a_question() {
    let mut app = app();
    app.cursor = Some("orders".to_owned());
    app.press(Key::Enter);
    press(&mut app, "F");
    insta::assert_snapshot!("force", picture(&app));
    assert_eq!(press(&mut app, "n"), Do::Ask("orders".to_owned()));
    press(&mut app, "F");
    let holder = Some("7@web-1 settle".to_owned());
    assert_eq!(press(&mut app, "y"), Do::Force { name: "orders".to_owned(), holder });
    let mut reader = App { may_force: false, ..self::app() };
    reader.cursor = Some("orders".to_owned());
    reader.press(Key::Enter);
    assert_eq!(press(&mut reader, "Fy"), Do::Nothing);
}

#[test]
fn the_nodes_and_the_keys_have_pages_of_their_own() {
    let mut app = app();
    press(&mut app, "n");
    insta::assert_snapshot!("nodes", picture(&app));
    press(&mut app, "?");
    insta::assert_snapshot!("help", picture(&app));
    app.press(Key::Escape);
    assert_eq!(app.view, View::List);
    assert_eq!(app.press(Key::Interrupt), Do::Quit);
}
