//! A real process is stopped past its term in the middle of its work; the play of
//! `examples/fencing`.

use crate::play::{Outcome, Play};
use crate::worker::{Resource, Task};

const ROUNDS: usize = 3;

/// The workers are this test program, told to run this test and nothing else.
const WORKER: &str = "pause::a_process_that_was_started_as_a_worker_works";

fn play() -> Play {
    let program = std::env::current_exe().unwrap();
    Play::new(program.to_str().unwrap(), &[WORKER, "--exact", "--quiet"])
}

#[test]
fn a_process_that_was_started_as_a_worker_works() {
    if let Some(task) = Task::from_environment() {
        task.run().unwrap();
    }
}

#[test]
fn without_fences_a_paused_holder_destroys_the_update_of_the_next() {
    let play = play();
    for _ in 0..ROUNDS {
        let Outcome { names, events } = play.run(Resource::Plain, |_| ()).unwrap();
        assert!(events.iter().any(|event| event == r#"bob has written ["bob"]"#), "{events:?}");
        assert_eq!(names, ["ann"], "{events:?}");
    }
}

#[test]
fn with_fences_a_paused_holder_is_refused_and_nothing_is_lost() {
    let play = play();
    for _ in 0..ROUNDS {
        let Outcome { names, events } = play.run(Resource::Fenced, |_| ()).unwrap();
        assert!(events.iter().any(|event| event.starts_with("ann is refused")), "{events:?}");
        assert_eq!(names, ["bob", "ann"], "{events:?}");
    }
}
