//! Pictures, drawn without a terminal.

use std::collections::VecDeque;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::contender::Said;
use super::draw;
use super::judge::Judge;
use super::picture::{NodeView, Picture};
use super::server::Power;

const WIDTH: u16 = 100;

/// What is drawn: each line, and whether it has red in it.
fn lines(picture: &Picture<'_>, height: u16) -> Vec<(String, bool)> {
    let mut terminal = Terminal::new(TestBackend::new(WIDTH, height)).unwrap();
    let drawn = terminal.draw(|frame| draw(picture, frame)).unwrap();
    let cell = |column, row| &drawn.buffer[(column, row)];
    let line = |row| {
        let text: String = (0..WIDTH).map(|column| cell(column, row).symbol()).collect();
        (text.trim_end().to_owned(), (0..WIDTH).any(|column| cell(column, row).fg == Color::Red))
    };
    (0..height).map(line).collect()
}

fn node(number: u16) -> NodeView {
    let address = format!("127.0.0.1:4000{number}");
    NodeView { address, votes: true, reachable: true, ..NodeView::default() }
}

const fn acquired(fence: u64, at_us: u64) -> Said {
    Said::Acquired { fence, at_us, until_us: at_us + 6_000_000, long: false }
}

#[test]
fn one_holder_is_shown_with_its_fence_and_the_nodes_with_what_was_done_to_them() {
    let (mut judge, mut nodes) = (Judge::default(), (1..=5).map(node).collect::<Vec<_>>());
    judge.hear(2, &acquired(77, 0));
    (nodes[1].power, nodes[1].votes, nodes[1].reachable) = (Power::Killed, false, false);
    let log = VecDeque::from([("12:00:00  cid acquired, fence 77".to_owned(), false)]);
    let picture = Picture {
        dashboard: Some("http://127.0.0.1:40000/"),
        guard: true,
        judge: &judge,
        nodes: &nodes,
        chosen: 1,
        paused: None,
        log: &log,
        help: false,
        now_us: 1_000_000,
    };
    let shown = lines(&picture, 24);
    assert_eq!(shown[0].0, "tenure demo   dashboard http://127.0.0.1:40000/   restart guard ON");
    assert_eq!(shown[1], ("lock \"demo\"  held by cid, fence 77, expires in 5.0 s".to_owned(), false));
    assert_eq!(shown[3], ("never two holders at once".to_owned(), false));
    assert_eq!(shown[6], ("> 2  127.0.0.1:40002           KILLED   unreachable".to_owned(), true));
    assert_eq!(shown[7], ("  3  127.0.0.1:40003           up       votes".to_owned(), false));
    assert!(shown.iter().any(|(line, _)| line == "12:00:00  cid acquired, fence 77"), "{shown:?}");
    assert!(lines(&Picture { help: true, ..picture }, 30).iter().any(|(line, _)| line.contains("FLUSHALL")));
}

#[test]
fn two_holders_are_red_with_both_fences() {
    let (mut judge, nodes, log) = (Judge::default(), [node(1)], VecDeque::new());
    judge.hear(0, &acquired(10, 0));
    judge.hear(1, &acquired(20, 4_000_000));
    assert!(judge.overlap(5_000_000).is_some());
    let picture = Picture {
        dashboard: None,
        guard: false,
        judge: &judge,
        nodes: &nodes,
        chosen: 0,
        paused: Some(0),
        log: &log,
        help: false,
        now_us: 5_000_000,
    };
    let shown = lines(&picture, 20);
    assert_eq!(shown[0], ("tenure demo   restart guard OFF".to_owned(), true));
    assert_eq!(shown[1], ("lock \"demo\"  TWO HOLDERS AT ONCE".to_owned(), true));
    assert_eq!(shown[2], ("  ann with fence 10, ben with fence 20".to_owned(), true));
    let sum = "two holders at once 1 time, last ann 10 and ben 20; writes rejected: 0";
    assert_eq!(shown[3], (sum.to_owned(), true));
    let small = lines(&picture, 10);
    assert!(small[0].0.starts_with("tenure demo needs 80 columns and 20 lines"), "{small:?}");
}
