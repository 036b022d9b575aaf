//! What fences cost: the default beside the same without fences, and beside the floor.

use anyhow::Result;

use crate::pipelined;
use crate::report::{Ratio, Target};
use crate::settings::Settings;
use crate::suite::{BATCH, Case, Condition, Rows, Suite, Variant};

const FENCED: Suite = Suite {
    name: "fenced",
    title: "uncontended cycles (acquire, release) with and without fences",
    cases: CASES,
    ratios,
};

const CASES: &[Case] = &[
    Case(Condition::Healthy, Variant::FloorSingle),
    Case(Condition::Healthy, Variant::unfenced(1)),
    Case(Condition::Healthy, Variant::fenced(1)),
    Case(Condition::Healthy, Variant::unfenced(64)),
    Case(Condition::Healthy, Variant::fenced(64)),
    Case(Condition::Healthy, Variant::FloorBatched),
    Case(Condition::Healthy, Variant::unfenced(BATCH)),
    Case(Condition::Healthy, Variant::fenced(BATCH)),
];

pub(crate) fn run(settings: &Settings) -> Result<()> {
    FENCED.run(settings)?;
    pipelined::run(settings)
}

fn ratios(rows: &Rows<'_>) -> Vec<Ratio> {
    let of = |variant| rows.of(Condition::Healthy, variant);
    vec![
        Ratio {
            name: "cycle p50, 1 task, fenced / unfenced",
            value: of(Variant::fenced(1)).whole_p50 / of(Variant::unfenced(1)).whole_p50,
            target: Target::AtMost(1.15),
        },
        Ratio {
            name: "cycles/s, 256 tasks, fenced / unfenced",
            value: of(Variant::fenced(BATCH)).cycles_per_second
                / of(Variant::unfenced(BATCH)).cycles_per_second,
            target: Target::AtLeast(0.6),
        },
    ]
}
