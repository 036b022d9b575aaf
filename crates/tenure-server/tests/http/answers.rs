//! Every answer that is described is given, on all kinds of nodes: each call with each status and
//! each type of problem, each field of a request and of an answer, and each fact of a problem. The
//! tests' client compares what is in them, field by field.

mod asking;
mod described;
mod leases;
mod nodes;
mod people;
mod refusals;
mod streams;

use self::described::{Seen, as_in_a_live_view, described};
use crate::everywhere::{MadeOf, everywhere};

/// What all calls are, with a body or without. The last ones are those whose answers have no end.
const LOOKS: [&str; 10] = [
    "GET /livez",
    "GET /readyz",
    "GET /version",
    "GET /metrics",
    "GET /openapi.json",
    "GET /v1/nodes",
    "GET /v1/lock?name=x",
    "GET /v1/locks?prefix=x",
    "GET /v1/events?prefix=x",
    "GET /v1/watch?prefix=x",
];
const ACTS: [&str; 7] = [
    "POST /v1/acquire",
    "POST /v1/extend",
    "POST /v1/release",
    "POST /v1/extend-many",
    "POST /v1/release-many",
    "POST /v1/force-release",
    "POST /v1/hold",
];

#[tokio::test]
async fn every_answer_that_is_described_is_given_on_all_kinds_of_nodes() {
    everywhere(async |fleet| {
        let mut seen = Seen::new();
        leases::go_from_their_beginning_to_their_end(fleet, &mut seen).await;
        leases::are_asked_for_again(fleet, &mut seen).await;
        streams::holds(fleet, &mut seen).await;
        streams::events(fleet, &mut seen).await;
        streams::watches(fleet, &mut seen).await;
        refusals::of_bad_input(fleet, &mut seen).await;
        refusals::of_slow_requests(fleet, &mut seen).await;
        refusals::of_callers(fleet, &mut seen).await;
        people::who_log_in(fleet, &mut seen).await;
        refusals::for_want_of_room(fleet, &mut seen).await;
        refusals::at_the_end(fleet, &mut seen).await;
        nodes::that_forget(fleet, &mut seen).await;
        nodes::that_answer_too_late_or_not_at_all(fleet, &mut seen).await;
        if let MadeOf::Servers(_) = fleet.made_of() {
            nodes::whose_clocks_were_set_back(&mut seen).await;
        }
        as_in_a_live_view(&mut seen);
        let missing: Vec<String> = described(fleet).difference(&seen).cloned().collect();
        assert!(missing.is_empty(), "described and never given: {missing:#?}");
    })
    .await;
}
