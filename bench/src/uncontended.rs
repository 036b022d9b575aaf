//! What a cycle (acquire, release) costs when nobody competes for the lock, against the floor.
//! Without fences, as the floor has none; the benchmark `fenced` shows what they cost.

use crate::report::{Ratio, Target};
use crate::suite::{BATCH, Case, Condition, Rows, Suite, Variant};

pub(crate) const UNCONTENDED: Suite = Suite {
    name: "uncontended",
    title: "uncontended cycles (acquire, release) without fences",
    cases: CASES,
    ratios,
};

const CASES: &[Case] = &[
    Case(Condition::Healthy, Variant::FloorSingle),
    Case(Condition::Healthy, Variant::FloorBatched),
    Case(Condition::Healthy, Variant::unfenced(1)),
    Case(Condition::Healthy, Variant::unfenced(16)),
    Case(Condition::Healthy, Variant::unfenced(64)),
    Case(Condition::Healthy, Variant::unfenced(BATCH)),
    Case(Condition::Hung, Variant::FloorSingle),
    Case(Condition::Hung, Variant::unfenced(1)),
    Case(Condition::Hung, Variant::unfenced(16)),
    Case(Condition::Hung, Variant::unfenced(64)),
    Case(Condition::Hung, Variant::unfenced(BATCH)),
    Case(Condition::Dead, Variant::FloorSingle),
    Case(Condition::Dead, Variant::unfenced(1)),
    Case(Condition::Dead, Variant::unfenced(16)),
    Case(Condition::Dead, Variant::unfenced(64)),
    Case(Condition::Dead, Variant::unfenced(BATCH)),
    Case(Condition::BesidePeers, Variant::unfenced(1)),
    Case(Condition::BesidePeers, Variant::unfenced(64)),
];

fn ratios(rows: &Rows<'_>) -> Vec<Ratio> {
    let (healthy, hung, peers) = (Condition::Healthy, Condition::Hung, Condition::BesidePeers);
    let one = rows.of(healthy, Variant::unfenced(1));
    vec![
        Ratio {
            name: "cycle p50, tenure with 1 task / floor single",
            value: one.whole_p50 / rows.of(healthy, Variant::FloorSingle).whole_p50,
            target: Target::AtMost(1.25),
        },
        Ratio {
            name: "cycles/s, tenure with 256 tasks / floor batched",
            value: rows.of(healthy, Variant::unfenced(BATCH)).cycles_per_second
                / rows.of(healthy, Variant::FloorBatched).cycles_per_second,
            target: Target::AtLeast(0.45),
        },
        Ratio {
            name: "acquire p99, tenure with 1 task, one hung / healthy",
            value: rows.of(hung, Variant::unfenced(1)).acquire_p99 / one.acquire_p99,
            target: Target::AtMost(1.5),
        },
        Ratio {
            name: "cycle p50, tenure with 1 task, beside peers' keys / without",
            value: rows.of(peers, Variant::unfenced(1)).whole_p50 / one.whole_p50,
            target: Target::AtMost(1.05),
        },
        Ratio {
            name: "time per cycle, tenure with 64 tasks, beside peers' keys / without",
            value: rows.of(healthy, Variant::unfenced(64)).cycles_per_second
                / rows.of(peers, Variant::unfenced(64)).cycles_per_second,
            target: Target::AtMost(1.05),
        },
    ]
}
