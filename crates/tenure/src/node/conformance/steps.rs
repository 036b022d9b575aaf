//! What is asked of a node: at random, and in the order of a few stories.

use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Acquire {
        name: u8,
        owner: u8,
        ttl_ms: u64,
    },
    /// With a fence that lies so many milliseconds from the beginning of the case, in the life of
    /// this record.
    Fenced {
        name: u8,
        owner: u8,
        ttl_ms: u64,
        fence_ms: i64,
        record: u8,
    },
    /// The same with a range of fences, some microseconds long.
    Range {
        name: u8,
        owner: u8,
        ttl_ms: u64,
        fence_ms: i64,
        span: u32,
        ticket: Option<u8>,
    },
    Heal {
        name: u8,
        owner: u8,
        ttl_ms: u64,
        fence_ms: Option<i64>,
        quarantine_ms: u64,
        how: How,
    },
    /// Puts one record in the place of another, or of none; or none in its place.
    Record {
        from: Option<u8>,
        to: Option<u8>,
        stamp: bool,
    },
    /// Changes nothing that anybody could see.
    Trim,
    Extend {
        name: u8,
        owner: u8,
        ttl_ms: u64,
        how: How,
    },
    Undo {
        name: u8,
        owner: u8,
        requeue: Option<u8>,
    },
    Release {
        name: u8,
        owner: u8,
        labelled: bool,
        next: Then,
    },
    /// Even tickets are those of a client that listens.
    Wait {
        name: u8,
        owner: u8,
        ttl_ms: u64,
        fence_ms: Option<i64>,
        ticket: Option<u8>,
        fresh: bool,
        label: bool,
    },
    /// Shares it with others.
    Share {
        name: u8,
        owner: u8,
        ttl_ms: u64,
        fence_ms: Option<i64>,
        ticket: Option<u8>,
        fresh: bool,
        label: bool,
        gives_way: bool,
    },
    /// Holds it for an owner that may hold it again.
    Own {
        name: u8,
        owner: u8,
        ttl_ms: u64,
        fence_ms: Option<i64>,
        ticket: Option<u8>,
        fresh: bool,
        label: bool,
        id: u8,
        joins: bool,
    },
    Enqueue {
        name: u8,
        ticket: u8,
    },
    Leave {
        name: u8,
        ticket: u8,
    },
    Nudge {
        name: u8,
    },
    Inspect {
        name: u8,
    },
    List {
        /// With label, fence and waiters.
        detailed: bool,
    },
    /// All names, one by one.
    ListThese,
    /// In the life of this record.
    Clear {
        record: u8,
    },
    Sleep {
        millis: u64,
    },
    /// Without waiting for answers in between: they may leave as one call.
    Together(Vec<Step>),
}

/// How a lock is held: [`tenure_core::Mode`] with the number of an owner.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    Alone,
    Shared,
    Owned(u8),
}

/// How many locks there are.
pub(super) const NAMES: u8 = 4;

/// The first two of them together.
pub(super) const BOTH: u8 = NAMES;

/// The tickets of those who share the lock; smaller ones are those of others.
pub(super) const SHARED_TICKETS: std::ops::Range<u8> = 6..11;

/// The tickets of owners.
pub(super) const OWNED_TICKETS: std::ops::Range<u8> = 11..15;

/// Who is next: [`tenure_core::Next`] with the number of a ticket.
#[derive(Clone, Copy, Debug)]
pub(super) enum Then {
    InLine,
    InLineWith(u8),
    OutsideLine,
    Nobody(u64),
}

impl Step {
    pub(super) fn is_about_records(&self) -> bool {
        match self {
            Self::Record { .. } | Self::Fenced { record: 1.., .. } => true,
            Self::Together(steps) => steps.iter().any(Self::is_about_records),
            _ => false,
        }
    }
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (name, owner, ttl) = (0..2_u8, 0..3_u8, 1..60_u64);
    let (ttl_of_shared, ttl_of_owned) = (ttl.clone(), ttl.clone());
    let step = prop_oneof![
        4 => (names(), owner.clone(), ttl.clone())
            .prop_map(|(name, owner, ttl_ms)| Step::Acquire { name, owner, ttl_ms }),
        6 => (names(), owner.clone(), ttl.clone(), fence(), 0..10_u8).prop_map(
            |(name, owner, ttl_ms, fence_ms, record)| {
                Step::Fenced { name, owner, ttl_ms, fence_ms, record: record / 9 }
            }
        ),
        4 => (name.clone(), owner.clone(), ttl.clone(), fence(), span(), prop::option::of(0..6_u8)).prop_map(
            |(name, owner, ttl_ms, fence_ms, span, ticket)| {
                Step::Range { name, owner, ttl_ms, fence_ms, span, ticket }
            }
        ),
        4 => (names(), owner.clone(), ttl.clone(), prop::option::of(fence()), 0..60_u64, how()).prop_map(
            |(name, owner, ttl_ms, fence_ms, quarantine_ms, how)| {
                Step::Heal { name, owner, ttl_ms, fence_ms, quarantine_ms, how: of(name, how) }
            }
        ),
        1 => (prop::option::of(0..2_u8), prop::option::weighted(0.7, 0..2_u8), any::<bool>())
            .prop_map(|(from, to, stamp)| Step::Record { from, to, stamp: stamp && to.is_some() }),
        2 => Just(Step::Trim),
        4 => (names(), owner.clone(), ttl.clone(), how())
            .prop_map(|(name, owner, ttl_ms, how)| Step::Extend { name, owner, ttl_ms, how: of(name, how) }),
        3 => (names(), owner.clone(), prop::option::weighted(0.3, 0..OWNED_TICKETS.end))
            .prop_map(|(name, owner, requeue)| Step::Undo { name, owner, requeue }),
        8 => (names(), owner.clone(), ttl, prop::option::of(fence()), prop::option::of(0..6_u8), any::<[bool; 2]>())
            .prop_map(|(name, owner, ttl_ms, fence_ms, ticket, [fresh, label])| {
                Step::Wait { name, owner, ttl_ms, fence_ms, ticket, fresh, label }
            }),
        8 => (name.clone(), owner.clone(), ttl_of_shared, prop::option::of(fence()), prop::option::of(SHARED_TICKETS), any::<[bool; 3]>())
            .prop_map(|(name, owner, ttl_ms, fence_ms, ticket, [fresh, label, gives_way])| {
                Step::Share { name, owner, ttl_ms, fence_ms, ticket, fresh, label, gives_way }
            }),
        12 => (name.clone(), owner.clone(), ttl_of_owned, prop::option::weighted(0.8, fence()), prop::option::of(OWNED_TICKETS), any::<[bool; 3]>(), 0..2_u8)
            .prop_map(|(name, owner, ttl_ms, fence_ms, ticket, [fresh, label, joins], id)| {
                Step::Own { name, owner, ttl_ms, fence_ms, ticket, fresh, label, id, joins }
            }),
        6 => (names(), owner, any::<bool>(), then())
            .prop_map(|(name, owner, labelled, next)| Step::Release { name, owner, labelled, next }),
        2 => (names(), 0..OWNED_TICKETS.end).prop_map(|(name, ticket)| Step::Enqueue { name, ticket }),
        2 => (names(), 0..OWNED_TICKETS.end).prop_map(|(name, ticket)| Step::Leave { name, ticket }),
        4 => names().prop_map(|name| Step::Nudge { name }),
        3 => names().prop_map(|name| Step::Inspect { name }),
        2 => any::<bool>().prop_map(|detailed| Step::List { detailed }),
        1 => Just(Step::ListThese),
        3 => (0..4_u8).prop_map(|record| Step::Clear { record: record / 3 }),
        3 => (1..40_u64).prop_map(|millis| Step::Sleep { millis }),
        6 => prop::collection::vec(together(), 2..10).prop_map(Step::Together),
    ];
    prop::collection::vec(step, 1..30)
}

/// What can leave with others, and now and then something that cannot.
fn together() -> impl Strategy<Value = Step> {
    let (name, owner, ttl) = (0..NAMES, 0..3_u8, 1..60_u64);
    prop_oneof![
        6 => (name.clone(), owner.clone(), ttl.clone(), fence(), 0..20_u8).prop_map(
            |(name, owner, ttl_ms, fence_ms, record)| {
                Step::Fenced { name, owner, ttl_ms, fence_ms, record: record / 19 }
            }
        ),
        6 => (name.clone(), owner.clone()).prop_map(|(name, owner)| {
            Step::Release { name, owner, labelled: false, next: Then::InLine }
        }),
        3 => (name.clone(), owner.clone(), ttl.clone(), how())
            .prop_map(|(name, owner, ttl_ms, how)| Step::Extend { name, owner, ttl_ms, how }),
        1 => (name.clone(), owner.clone(), ttl.clone())
            .prop_map(|(name, owner, ttl_ms)| Step::Acquire { name, owner, ttl_ms }),
        1 => (name.clone(), owner.clone(), ttl, fence(), span()).prop_map(
            |(name, owner, ttl_ms, fence_ms, span)| {
                Step::Range { name, owner, ttl_ms, fence_ms, span, ticket: None }
            }
        ),
        1 => (name.clone(), owner).prop_map(|(name, owner)| Step::Undo { name, owner, requeue: None }),
        1 => (name, 0..6_u8).prop_map(|(name, ticket)| Step::Enqueue { name, ticket }),
    ]
}

/// One of two locks, or both.
fn names() -> impl Strategy<Value = u8> {
    prop_oneof![2 => 0..2_u8, 1 => Just(BOTH)]
}

/// Several locks are held alone.
fn of(name: u8, how: How) -> How {
    if name == BOTH { How::Alone } else { how }
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![Just(How::Alone), Just(How::Shared), (0..2_u8).prop_map(How::Owned)]
}

fn then() -> impl Strategy<Value = Then> {
    prop_oneof![
        Just(Then::InLine),
        (0..OWNED_TICKETS.end).prop_map(Then::InLineWith),
        Just(Then::OutsideLine),
        (0..60_u64).prop_map(Then::Nobody)
    ]
}

/// Fences close to each other, and some that are far too old or too new.
fn fence() -> impl Strategy<Value = i64> {
    prop_oneof![10 => 0..30_i64, 1 => Just(-100_000_i64), 1 => Just(100_000_i64)]
}

/// Ranges that reach over the next fences, and some that reach too far ahead.
fn span() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 1..5_000_u32, 1 => Just(20_000_000_u32)]
}

/// Two wait, the lock is passed on to the first, and that one claims it. Its lock ends without a
/// release: who comes along then must still hear that somebody is in line.
pub(super) const CLAIMED: &[Step] = &[
    Step::Wait { name: 0, owner: 0, ttl_ms: 50, fence_ms: Some(1), ticket: None, fresh: false, label: false },
    Step::Wait {
        name: 0,
        owner: 1,
        ttl_ms: 50,
        fence_ms: Some(2),
        ticket: Some(0),
        fresh: true,
        label: false,
    },
    Step::Wait {
        name: 0,
        owner: 2,
        ttl_ms: 50,
        fence_ms: Some(3),
        ticket: Some(2),
        fresh: true,
        label: false,
    },
    Step::Release { name: 0, owner: 0, labelled: false, next: Then::InLine },
    Step::Wait {
        name: 0,
        owner: 1,
        ttl_ms: 50,
        fence_ms: Some(4),
        ticket: Some(0),
        fresh: false,
        label: false,
    },
    Step::Undo { name: 0, owner: 1, requeue: None },
    Step::Fenced { name: 0, owner: 0, ttl_ms: 50, fence_ms: 5, record: 0 },
];

/// One waits, and the lock is left to those outside: neither a release nor a nudge gives it to the
/// waiter for now, nor does it get it by asking. Whoever comes along does.
pub(super) const OPENED: &[Step] = &[
    Step::Wait { name: 0, owner: 0, ttl_ms: 500, fence_ms: Some(1), ticket: None, fresh: false, label: true },
    Step::Wait {
        name: 0,
        owner: 1,
        ttl_ms: 500,
        fence_ms: Some(2),
        ticket: Some(0),
        fresh: true,
        label: false,
    },
    Step::Release { name: 0, owner: 0, labelled: true, next: Then::OutsideLine },
    Step::Nudge { name: 0 },
    Step::Wait {
        name: 0,
        owner: 1,
        ttl_ms: 500,
        fence_ms: Some(3),
        ticket: Some(0),
        fresh: false,
        label: false,
    },
    Step::Inspect { name: 0 },
    Step::Acquire { name: 0, owner: 2, ttl_ms: 500 },
    Step::Release { name: 0, owner: 2, labelled: false, next: Then::InLine },
    Step::Inspect { name: 0 },
    Step::Sleep { millis: 140 },
    Step::Nudge { name: 0 },
    Step::Inspect { name: 0 },
    Step::Wait {
        name: 0,
        owner: 1,
        ttl_ms: 500,
        fence_ms: Some(4),
        ticket: Some(0),
        fresh: false,
        label: false,
    },
    Step::Release { name: 0, owner: 1, labelled: false, next: Then::OutsideLine },
    Step::Inspect { name: 0 },
];

/// A lock that is put back about when it ends: it was there still, or was set anew, and both are
/// answered alike.
pub(super) const AT_THE_END: &[Step] = &[
    Step::Heal { name: 0, owner: 0, ttl_ms: 4, fence_ms: None, quarantine_ms: 7, how: How::Alone },
    Step::Sleep { millis: 3 },
    Step::Heal { name: 0, owner: 0, ttl_ms: 45, fence_ms: None, quarantine_ms: 7, how: How::Alone },
    Step::Fenced { name: 0, owner: 1, ttl_ms: 4, fence_ms: 27, record: 0 },
];

const fn wait(owner: u8, fence_ms: i64, ticket: u8) -> Step {
    let (name, ttl_ms, fence_ms, ticket) = (0, 500, Some(fence_ms), Some(ticket));
    Step::Wait { name, owner, ttl_ms, fence_ms, ticket, fresh: true, label: false }
}

const fn share(owner: u8, fence_ms: i64, ticket: u8, gives_way: bool) -> Step {
    let (name, ttl_ms, fence_ms, ticket) = (0, 500, Some(fence_ms), Some(ticket));
    Step::Share { name, owner, ttl_ms, fence_ms, ticket, fresh: true, label: true, gives_way }
}

const fn release(owner: u8) -> Step {
    Step::Release { name: 0, owner, labelled: true, next: Then::InLine }
}

/// One has it alone, one waits for that, and two who would share it do: they are next, both at
/// once; then the one who was before them in line; and one who shares it gives way to that one, or
/// not.
pub(super) const TURNS: &[Step] = &[
    Step::Fenced { name: 0, owner: 0, ttl_ms: 500, fence_ms: 1, record: 0 },
    wait(1, 2, 0),
    share(2, 3, 6, true),
    share(3, 4, 8, true),
    Step::Inspect { name: 0 },
    release(0),
    Step::Inspect { name: 0 },
    share(3, 6, 8, false),
    share(2, 5, 6, false),
    Step::Inspect { name: 0 },
    share(4, 7, 10, true),
    share(4, 7, 10, false),
    Step::Extend { name: 0, owner: 2, ttl_ms: 600, how: How::Shared },
    Step::Extend { name: 0, owner: 2, ttl_ms: 600, how: How::Alone },
    release(2),
    release(4),
    Step::Inspect { name: 0 },
    release(3),
    Step::Inspect { name: 0 },
    wait(1, 8, 0),
    Step::Extend { name: 0, owner: 1, ttl_ms: 600, how: How::Shared },
    share(2, 8, 6, true),
    share(2, 9, 6, true),
    Step::Heal { name: 0, owner: 3, ttl_ms: 500, fence_ms: Some(9), quarantine_ms: 20, how: How::Shared },
    Step::Heal { name: 0, owner: 4, ttl_ms: 500, fence_ms: Some(7), quarantine_ms: 20, how: How::Shared },
    Step::Extend { name: 0, owner: 3, ttl_ms: 600, how: How::Shared },
    Step::Inspect { name: 0 },
];

const fn own(owner: u8, id: u8, fence_ms: i64, joins: bool) -> Step {
    let (name, ttl_ms, fence_ms, ticket) = (0, 500, Some(fence_ms), None);
    Step::Own { name, owner, ttl_ms, fence_ms, ticket, fresh: false, label: true, id, joins }
}

const fn own_in_line(owner: u8, id: u8, fence_ms: i64, ticket: u8, fresh: bool) -> Step {
    let (name, ttl_ms, fence_ms, ticket) = (0, 500, Some(fence_ms), Some(ticket));
    Step::Own { name, owner, ttl_ms, fence_ms, ticket, fresh, label: false, id, joins: false }
}

/// An owner gets it twice, the second time with the fence of the first; another waits, is woken
/// when both are released, and gets it; and the first joins late with a fence that is too small by
/// then. Locks of another kind are refused all the while.
pub(super) const AGAIN: &[Step] = &[
    own(0, 0, 1, false),
    own(1, 0, 2, false),
    own(1, 0, 1, true),
    own(1, 0, 1, true),
    own_in_line(2, 1, 3, 12, true),
    own_in_line(3, 0, 4, 14, true),
    Step::Fenced { name: 0, owner: 4, ttl_ms: 500, fence_ms: 5, record: 0 },
    Step::Acquire { name: 0, owner: 4, ttl_ms: 500 },
    share(4, 5, 6, false),
    Step::Inspect { name: 0 },
    Step::List { detailed: true },
    Step::ListThese,
    Step::Extend { name: 0, owner: 0, ttl_ms: 600, how: How::Owned(0) },
    Step::Extend { name: 0, owner: 2, ttl_ms: 600, how: How::Owned(1) },
    Step::Extend { name: 0, owner: 0, ttl_ms: 600, how: How::Alone },
    release(0),
    Step::Inspect { name: 0 },
    release(2),
    release(1),
    Step::Inspect { name: 0 },
    Step::List { detailed: true },
    Step::ListThese,
    own(1, 0, 6, false),
    own_in_line(2, 1, 6, 12, false),
    Step::Inspect { name: 0 },
    own(3, 0, 1, true),
    Step::Undo { name: 0, owner: 2, requeue: None },
    own(3, 0, 1, true),
    own(3, 1, 6, true),
    own(4, 1, 7, false),
    Step::Heal { name: 0, owner: 4, ttl_ms: 500, fence_ms: Some(6), quarantine_ms: 20, how: How::Owned(1) },
    Step::Heal { name: 0, owner: 5, ttl_ms: 500, fence_ms: Some(7), quarantine_ms: 20, how: How::Owned(1) },
    Step::Heal { name: 0, owner: 5, ttl_ms: 500, fence_ms: Some(6), quarantine_ms: 20, how: How::Owned(0) },
    Step::Extend { name: 0, owner: 4, ttl_ms: 600, how: How::Owned(1) },
    Step::Undo { name: 0, owner: 4, requeue: None },
    Step::Inspect { name: 0 },
    release(4),
    Step::Clear { record: 0 },
    Step::Inspect { name: 0 },
];

const fn both(owner: u8, fence_ms: i64, ticket: Option<u8>) -> Step {
    let (name, ttl_ms, fence_ms) = (BOTH, 500, Some(fence_ms));
    Step::Wait { name, owner, ttl_ms, fence_ms, ticket, fresh: false, label: true }
}

const fn one(name: u8, owner: u8, fence_ms: i64, ticket: Option<u8>) -> Step {
    let (ttl_ms, fence_ms) = (500, Some(fence_ms));
    Step::Wait { name, owner, ttl_ms, fence_ms, ticket, fresh: false, label: false }
}

/// Both locks are wanted together, and one of them alone: all or none, in line for the one that is
/// held; and what is set aside for one who came later is displaced. Then one vanishes: nothing is
/// extended, it is put back, and counts later. In the end one is kept from everybody.
pub(super) const TOGETHER: &[Step] = &[
    Step::Acquire { name: BOTH, owner: 5, ttl_ms: 500 },
    Step::Undo { name: BOTH, owner: 5, requeue: None },
    one(1, 0, 1, None),
    both(1, 2, Some(0)),
    Step::Inspect { name: 0 },
    one(1, 2, 3, Some(2)),
    Step::Inspect { name: 1 },
    Step::Inspect { name: BOTH },
    Step::Release { name: 1, owner: 0, labelled: false, next: Then::InLine },
    one(0, 3, 4, None),
    both(1, 5, Some(0)),
    one(0, 4, 6, Some(4)),
    Step::Leave { name: 1, ticket: 0 },
    Step::Inspect { name: 1 },
    both(1, 7, Some(0)),
    Step::Release { name: 0, owner: 3, labelled: false, next: Then::InLine },
    both(1, 8, Some(0)),
    Step::Inspect { name: 0 },
    Step::Inspect { name: 1 },
    both(1, 8, Some(0)),
    one(1, 2, 9, Some(2)),
    Step::Extend { name: BOTH, owner: 1, ttl_ms: 600, how: How::Alone },
    Step::Undo { name: 0, owner: 1, requeue: None },
    Step::Extend { name: BOTH, owner: 1, ttl_ms: 900, how: How::Alone },
    Step::Inspect { name: 1 },
    Step::Heal { name: BOTH, owner: 1, ttl_ms: 500, fence_ms: Some(7), quarantine_ms: 40, how: How::Alone },
    Step::Heal { name: BOTH, owner: 1, ttl_ms: 500, fence_ms: Some(8), quarantine_ms: 40, how: How::Alone },
    Step::Extend { name: BOTH, owner: 1, ttl_ms: 600, how: How::Alone },
    Step::Sleep { millis: 50 },
    Step::Extend { name: BOTH, owner: 1, ttl_ms: 600, how: How::Alone },
    Step::Release { name: BOTH, owner: 1, labelled: true, next: Then::Nobody(300) },
    Step::Release { name: BOTH, owner: 1, labelled: true, next: Then::Nobody(900) },
    Step::Inspect { name: 0 },
    Step::List { detailed: true },
    Step::ListThese,
    Step::Extend { name: BOTH, owner: 1, ttl_ms: 600, how: How::Alone },
    Step::Heal { name: 0, owner: 1, ttl_ms: 500, fence_ms: Some(8), quarantine_ms: 40, how: How::Alone },
    Step::Undo { name: 0, owner: 1, requeue: None },
    one(0, 5, 10, Some(4)),
    Step::Release { name: 0, owner: 1, labelled: true, next: Then::InLine },
    Step::Inspect { name: 0 },
    Step::Inspect { name: 1 },
    Step::Clear { record: 0 },
];

/// Both locks are wanted by one that is in line for the second. It stays there when the first is
/// taken, too, and the first is set aside for nobody.
pub(super) const STAYS: &[Step] = &[
    one(1, 0, 1, None),
    both(1, 2, Some(0)),
    one(0, 2, 3, None),
    both(1, 4, Some(0)),
    Step::Inspect { name: 0 },
    Step::Inspect { name: 1 },
    Step::Release { name: 0, owner: 2, labelled: false, next: Then::InLine },
    Step::Inspect { name: 0 },
    one(0, 3, 5, None),
    Step::Release { name: 1, owner: 0, labelled: false, next: Then::InLine },
    both(1, 6, Some(0)),
    Step::Inspect { name: 0 },
    Step::Inspect { name: 1 },
];

/// One waits, the lock is set aside for it, and it comes a moment later: it hears how long ago that
/// was. The same for owners, and for one who wants another lock, too.
pub(super) const PASSED_ON_LATER: [&[Step]; 3] = [
    &[
        Step::Fenced { name: 0, owner: 0, ttl_ms: 500, fence_ms: 1, record: 0 },
        wait(1, 2, 0),
        release(0),
        Step::Sleep { millis: 23 },
        wait(1, 3, 0),
    ],
    &[
        own(0, 0, 1, false),
        own_in_line(2, 1, 3, 12, true),
        release(0),
        Step::Sleep { millis: 23 },
        own_in_line(2, 1, 4, 12, false),
    ],
    &[
        one(1, 0, 1, None),
        both(1, 2, Some(0)),
        Step::Release { name: 1, owner: 0, labelled: false, next: Then::InLine },
        Step::Sleep { millis: 23 },
        both(1, 3, Some(0)),
    ],
];

/// What comes late or seldom in every other story, first of all.
pub(super) const SELDOM: [&[Step]; 4] = [
    &[
        both(0, 1, None),
        Step::Release { name: BOTH, owner: 0, labelled: false, next: Then::InLine },
        one(2, 0, 2, None),
        Step::Release { name: 2, owner: 0, labelled: false, next: Then::Nobody(50) },
    ],
    &[
        Step::Enqueue { name: 0, ticket: 0 },
        Step::Leave { name: 0, ticket: 0 },
        Step::Nudge { name: 0 },
        Step::Undo { name: 0, owner: 0, requeue: None },
    ],
    &[
        Step::Acquire { name: 0, owner: 0, ttl_ms: 500 },
        Step::Extend { name: 0, owner: 0, ttl_ms: 600, how: How::Shared },
        share(2, 8, 6, true),
    ],
    &[
        own(0, 0, 5, false),
        Step::Extend { name: 0, owner: 0, ttl_ms: 600, how: How::Owned(0) },
        Step::Heal {
            name: 0,
            owner: 0,
            ttl_ms: 500,
            fence_ms: Some(7),
            quarantine_ms: 20,
            how: How::Owned(0),
        },
    ],
];
