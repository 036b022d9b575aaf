//! Workers that each add their number to a list in a resource, step by step in a given order.

use tenure::Fence;

/// What a worker does with the resource. Each call is one step; others may come between two of
/// them.
pub(crate) trait Resource {
    /// Makes it remember the fence; false if it has seen a larger one.
    fn claim(&mut self, fence: Fence) -> bool;
    /// The list; nothing if it has seen a larger fence.
    fn read(&mut self, fence: Fence) -> Option<String>;
    /// Replaces the list; false if it was refused.
    fn write(&mut self, fence: Fence, list: &str) -> bool;
}

/// The steps of a worker, in the order it takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Acquires the lock: from here on it has a fence.
    Acquire,
    Claim,
    Read,
    Write,
}

/// The right order, and one without the claim.
pub(crate) const CLAIM_FIRST: &[Step] = &[Step::Acquire, Step::Claim, Step::Read, Step::Write];
pub(crate) const NO_CLAIM: &[Step] = &[Step::Acquire, Step::Read, Step::Write];

/// What came of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Writes that were accepted: fence and worker.
    pub(crate) accepted: Vec<(Fence, usize)>,
    /// Workers whose accepted write is not in the list at the end.
    pub(crate) lost: Vec<usize>,
}

impl Outcome {
    /// Whether no accepted write has a smaller fence than the one before it.
    pub(crate) fn is_in_order(&self) -> bool {
        self.accepted.is_sorted_by_key(|(fence, _)| *fence)
    }
}

/// Lets workers take their steps in the order of `turns`, each turn the number of a worker. A
/// worker that is refused stops, one that is done does nothing more. The lock itself excludes
/// nobody here, it only gives growing fences.
pub(crate) fn run(resource: &mut impl Resource, steps: &[Step], turns: &[usize]) -> Outcome {
    let workers = turns.iter().max().map_or(0, |last| last + 1);
    let mut at = vec![0; workers];
    let mut fences = vec![Fence::NONE; workers];
    let mut lists = vec![String::new(); workers];
    let (mut next, mut outcome) = (1_700_000_000_000_000, Outcome::default());
    for &worker in turns {
        let Some(step) = steps.get(at[worker]) else { continue };
        at[worker] += 1;
        let fence = fences[worker];
        let refused = match step {
            Step::Acquire => {
                next += 1;
                fences[worker] = Fence::new(next);
                false
            }
            Step::Claim => !resource.claim(fence),
            Step::Read => match resource.read(fence) {
                Some(list) => {
                    lists[worker] = list;
                    false
                }
                None => true,
            },
            Step::Write => {
                let accepted = resource.write(fence, &format!("{}{worker} ", lists[worker]));
                if accepted {
                    outcome.accepted.push((fence, worker));
                }
                !accepted
            }
        };
        if refused {
            at[worker] = steps.len();
        }
    }
    next += 1;
    assert!(resource.claim(Fence::new(next)), "a new holder is never refused");
    let list = resource.read(Fence::new(next)).unwrap();
    let is_in_list = |worker: &usize| list.split(' ').any(|entry| entry == worker.to_string());
    outcome.lost =
        outcome.accepted.iter().map(|(_, worker)| *worker).filter(|worker| !is_in_list(worker)).collect();
    outcome
}

/// Every order in which two workers can take so many steps each.
pub(crate) fn all_orders_of_two(steps: usize) -> Vec<Vec<usize>> {
    let orders = (0_u32..1 << (2 * steps)).filter(|order| order.count_ones() as usize == steps);
    orders.map(|order| (0..2 * steps).map(|turn| usize::from(order >> turn & 1 == 1)).collect()).collect()
}
