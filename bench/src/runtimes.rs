//! Cycles (acquire, release) on every flavour of runtime, with names that are used once: where most
//! services live, and the dearest locks for the servers.

use crate::client::{Flavour, Names, Setup};
use crate::report::{Ratio, Target};
use crate::suite::{Case, Condition, Rows, Suite, Variant};

pub(crate) const RUNTIMES: Suite = Suite {
    name: "runtimes",
    title: "uncontended cycles (acquire, release), names used once, by flavour of runtime,",
    cases: CASES,
    ratios,
};

const FLAVOURS: [Flavour; 4] =
    [Flavour::Single, Flavour::Threads(1), Flavour::Threads(2), Flavour::OwnThread];

const TASKS: [usize; 5] = [1, 4, 16, 64, 256];

const COUNT: usize = 2 + 2 * FLAVOURS.len() * TASKS.len();

const CASES: &[Case] = &cases();

const fn cases() -> [Case; COUNT] {
    let mut cases = [Case(Condition::Healthy, Variant::FloorSingle); COUNT];
    cases[1] = Case(Condition::Healthy, Variant::FloorBatched);
    let mut index = 2;
    while index < COUNT {
        let number = index - 2;
        let (tasks, flavour) = (TASKS[number / 2 % TASKS.len()], FLAVOURS[number / 2 / TASKS.len()]);
        cases[index] = Case(Condition::Healthy, variant(tasks, number.is_multiple_of(2), flavour));
        index += 1;
    }
    cases
}

const fn variant(tasks: usize, fenced: bool, flavour: Flavour) -> Variant {
    Variant::Tenure(Setup { tasks, fenced, flavour, names: Names::Once })
}

fn ratios(rows: &Rows<'_>) -> Vec<Ratio> {
    let of = |tasks, flavour| rows.of(Condition::Healthy, variant(tasks, true, flavour));
    let floor = rows.of(Condition::Healthy, Variant::FloorBatched).cycles_per_second;
    vec![
        Ratio {
            name: "cycles/s, 64 tasks, 2 threads / floor batched",
            value: of(64, Flavour::Threads(2)).cycles_per_second / floor,
            target: Target::AtLeast(0.5),
        },
        Ratio {
            name: "cycle p50, 1 task, single / floor single",
            value: of(1, Flavour::Single).whole_p50
                / rows.of(Condition::Healthy, Variant::FloorSingle).whole_p50,
            target: Target::AtMost(1.3),
        },
        Ratio {
            name: "cycle p50, 1 task, own thread / single",
            value: of(1, Flavour::OwnThread).whole_p50 / of(1, Flavour::Single).whole_p50,
            target: Target::AtMost(2.0),
        },
    ]
}
