//! What the scripts answer, by name: one definition for the numbers in their texts (`text.rs`) and
//! for reading their replies (`replies.rs`). Fields come in the order in which they are named here.

use std::slice::Iter;

use super::super::resp::Value;

/// Something that a reply tells.
pub(in crate::node::redis) trait Field<'a>: Sized {
    /// Takes it from the front; nothing if something else is there.
    fn read(values: &mut Iter<'a, Value>) -> Option<Self>;
}

macro_rules! answers {
    (
        $($(#[$about:meta])* struct $name:ident $(<$life:lifetime>)? {
            $($field:ident: $kind:ty),*
        })*
        enum $outcome:ident {
            $($(#[$case_doc:meta])* $case:ident = $number:literal { $($part:ident: $part_kind:ty),* },)*
        }
    ) => {
        $(
            $(#[$about])*
            pub(in crate::node::redis) struct $name $(<$life>)? {
                $(pub(in crate::node::redis) $field: $kind,)*
            }

            impl<'a> Field<'a> for $name $(<$life>)? {
                fn read(values: &mut Iter<'a, Value>) -> Option<Self> {
                    Some(Self { $($field: Field::read(values)?),* })
                }
            }
        )*

        /// How a command went that acquires a lock or ends that. In scripts `NotHeld` is
        /// `NOT_HELD`.
        pub(in crate::node::redis) enum $outcome<'a> {
            $($(#[$case_doc])* $case { $($part: $part_kind),* },)*
        }

        impl<'a> Field<'a> for $outcome<'a> {
            fn read(values: &mut Iter<'a, Value>) -> Option<Self> {
                match i64::read(values)? {
                    $($number => Some(Self::$case { $($part: Field::read(values)?),* }),)*
                    _ => None,
                }
            }
        }

        impl $outcome<'_> {
            /// The number that stands for it in a reply.
            pub(super) fn number(name: &str) -> Option<i64> {
                let name = name.replace('_', "");
                let mut cases = [$((stringify!($case), $number)),*].into_iter();
                cases.find_map(|(case, number)| case.eq_ignore_ascii_case(&name).then_some(number))
            }
        }
    };
}

answers! {
    /// What `acquire.lua` answers unless it is simply granted: then it tells the time alone.
    struct Acquired<'a> { now: i64, outcome: Outcome<'a> }
    /// A waiter's place in line, the holder's label, and whether that is another library's client.
    struct PlaceInLine<'a> { ahead: i64, waiters: i64, label: &'a str, foreign: i64 }
    /// What `heal.lua` answers unless it was set: for how long another has it, if that is why.
    struct NotHealed { now: i64, left: Option<i64> }
    /// What `record.lua` answers.
    struct Recorded<'a> { now: i64, record: &'a str }
    /// What `trim.lua` answers.
    struct Trimmed<'a> { now: i64, seen: i64, left: i64, latest: &'a str }
    /// What `inspect.lua` answers.
    struct Inspected<'a> { now: i64, waiters: i64, line: List<InLine<'a>>, holder: Option<Holder<'a>> }
    /// One who waits, and what it said about itself.
    struct InLine<'a> { ticket: &'a str, note: &'a str }
    struct Holder<'a> { held: Held<'a>, fence: &'a str, label: &'a str, sharers: Vec<&'a str> }
    /// What `list.lua` answers: how long it took in microseconds, and how many keys there are, or
    /// -1.
    struct Sliced<'a> { now: i64, next: &'a str, took: i64, keys: i64, locks: Vec<Sighted<'a>> }
    /// Fence and label are empty, and the counts -1, if they are not known.
    struct Sighted<'a> { held: Held<'a>, fence: &'a str, label: &'a str, waiters: i64, holds: i64 }
    /// What `clear.lua` and `look_at_set.lua` answer.
    struct Listed<'a> { now: i64, next: &'a str, locks: Vec<Held<'a>> }
    /// The count is -1 if it is no reentrant lock, and -2 if it is no lock at all: the owner is the
    /// key's type then.
    struct Held<'a> { key: &'a str, owner: &'a str, left: i64, count: i64 }
    enum Outcome {
        /// It is not the owner's.
        NotHeld = 0 {},
        Done = 1 {},
        /// It is left to those outside the line.
        Opened = 2 {},
        /// Granted, and somebody may be in line: the first ticket, if it was looked at.
        Granted = 3 { next_ticket: &'a str },
        /// Another has it. With a ticket there is no lowest fence, but a place in line.
        Held = 4 { left: i64, lowest: &'a str, place: Option<PlaceInLine<'a>> },
        /// It is set aside for another.
        Reserved = 5 { left: i64, lowest: &'a str, place: Option<PlaceInLine<'a>> },
        /// Others are in line already: the last one's number.
        Overtaken = 6 { last_number: &'a str },
        /// The fence is too small.
        Behind = 7 { lowest: &'a str },
        /// The fence is too large.
        Ahead = 8 {},
        /// The node's record is another.
        Stranger = 9 {},
        /// The key is of another type, as the server calls it.
        OtherKind = 10 { kind: &'a str },
        /// The owner holds it already, with this fence.
        Rejoin = 11 { fence: &'a str },
        /// Granted what was set aside for this waiter, so many milliseconds ago.
        Claimed = 12 { passed_on: i64 },
    }
}

/// Everything that a reply tells; nothing if it is not what was expected, or more.
pub(in crate::node::redis) fn read<'a, F: Field<'a>>(values: &'a [Value]) -> Option<F> {
    let mut values = values.iter();
    F::read(&mut values).filter(|_| values.as_slice().is_empty())
}

impl Field<'_> for i64 {
    fn read(values: &mut Iter<'_, Value>) -> Option<Self> {
        if let Value::Number(number) = values.next()? { Some(*number) } else { None }
    }
}

impl<'a> Field<'a> for &'a str {
    fn read(values: &mut Iter<'a, Value>) -> Option<Self> {
        if let Value::Text(text) = values.next()? { Some(text) } else { None }
    }
}

/// What may be missing at the end.
impl<'a, F: Field<'a>> Field<'a> for Option<F> {
    fn read(values: &mut Iter<'a, Value>) -> Option<Self> {
        if values.as_slice().is_empty() { Some(None) } else { F::read(values).map(Some) }
    }
}

/// A list within the reply.
pub(in crate::node::redis) struct List<F>(pub(in crate::node::redis) Vec<F>);

impl<'a, F: Field<'a>> Field<'a> for List<F> {
    fn read(values: &mut Iter<'a, Value>) -> Option<Self> {
        if let Value::List(list) = values.next()? { read(list).map(Self) } else { None }
    }
}

/// As many as there are, up to the end.
impl<'a, F: Field<'a>> Field<'a> for Vec<F> {
    fn read(values: &mut Iter<'a, Value>) -> Option<Self> {
        let mut all = vec![];
        while !values.as_slice().is_empty() {
            all.push(F::read(values)?);
        }
        Some(all)
    }
}
