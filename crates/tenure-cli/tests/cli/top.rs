//! `top` in a real terminal, with real keys.

use crate::deployment::{TOOL, deployments_and_service, embedded_store, five_redis_nodes};
use crate::tmux::Tmux;

#[test]
fn locks_and_nodes_are_shown_sorted_filtered_and_in_full_by_nodes_and_by_a_service() {
    for deployment in deployments_and_service() {
        let _one = deployment.hold(&["alpha", "--label", "first"]);
        let two = deployment.hold(&["beta", "--label", "second"]);
        let Some(tmux) = Tmux::run(&deployment, (100, 30), &format!("exec '{TOOL}' top")) else { return };
        let screen = tmux.shows("beta");
        assert!(
            screen.contains("alpha") && screen.contains("second") && screen.contains("2 held"),
            "{screen}"
        );
        tmux.shows("nodes vote; locks are granted");
        tmux.types(&["/", "b", "e", "t", "Enter"]);
        tmux.shows("filter: bet");
        assert!(!tmux.screen().contains("alpha"));
        tmux.types(&["Enter"]);
        let screen = tmux.shows("frees in");
        assert!(screen.contains("fence") && screen.contains("second"), "{screen}");
        tmux.types(&["F"]);
        tmux.shows("--allow-force");
        drop(two);
        tmux.shows("free");
        tmux.types(&["Escape"]);
        tmux.shows("no lock matches the filter");
        tmux.types(&["Escape", "n"]);
        tmux.shows("persistence");
        tmux.types(&["?"]);
        tmux.shows("one lock in detail");
        let process = tmux.pid();
        tmux.types(&["q"]);
        tmux.ends(process);
    }
}

#[test]
fn a_lock_is_taken_from_its_holder_after_a_question() {
    let deployment = embedded_store();
    let holder = deployment.hold(&["x", "--label", "stuck"]);
    let Some(tmux) = Tmux::run(&deployment, (100, 20), &format!("exec '{TOOL}' top --allow-force")) else {
        return;
    };
    tmux.shows("stuck");
    tmux.types(&["Enter"]);
    tmux.shows("waiters");
    tmux.types(&["F"]);
    tmux.shows("Take x from");
    tmux.types(&["y"]);
    tmux.shows("from its holder");
    tmux.shows("free");
    drop(holder);
}

#[test]
fn a_terminal_may_be_resized_and_closed() {
    let deployment = embedded_store();
    let _holder = deployment.hold(&["x"]);
    let Some(tmux) = Tmux::run(&deployment, (100, 30), &format!("exec '{TOOL}' top")) else { return };
    tmux.shows("1 held");
    tmux.tmux(&["resize-window", "-x", "40", "-y", "8"]);
    tmux.shows("60 columns");
    tmux.tmux(&["resize-window", "-x", "80", "-y", "24"]);
    tmux.shows("1 held");
    let process = tmux.pid();
    tmux.tmux(&["kill-session"]);
    tmux.ends(process);
}

#[test]
fn a_service_that_goes_away_leaves_a_stale_picture_and_comes_back() {
    let mut deployment = five_redis_nodes();
    let listen = ["--listen", "unix:top.sock"];
    let service = crate::serve::Serving::start(&deployment, &listen);
    let _holder = deployment.hold(&["x", "--label", "kept"]);
    let command = format!("exec '{TOOL}' top --service unix:{}/top.sock", deployment.folder().display());
    let Some(tmux) = Tmux::run(&deployment, (120, 30), &format!("unset TENURE_NODES; {command}")) else {
        return;
    };
    tmux.shows("kept");
    deployment.servers[4].kill();
    tmux.shows("4 of 5 nodes vote");
    drop(service);
    let screen = tmux.shows("STALE");
    assert!(screen.contains("kept"), "the last picture stays: {screen}");
    let _service = crate::serve::Serving::start(&deployment, &listen);
    tmux.shows("locks are granted");
}

#[test]
fn without_a_terminal_there_is_one_picture() {
    for deployment in deployments_and_service() {
        let _holder = deployment.hold(&["x", "--label", "nightly"]);
        let done = deployment.tenure(&["top"]);
        assert!(done.ends_with(0).stdout.contains("locks are granted"), "{done:?}");
        assert!(done.stdout.contains("nightly") && !done.stdout.contains('\u{1b}'), "{done:?}");
    }
}
