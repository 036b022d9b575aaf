//! What a request is about: one lock, or several that are locked together.

use tenure::{Handover, LeaseToken, Lock, Locks};

use crate::caller::{Caller, Verb};
use crate::problem::{Kind, Problem};

/// One name, or several in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names(Vec<String>);

impl Names {
    /// What was sent as `name` or as `names`.
    pub(crate) fn of(name: Option<String>, names: Option<Vec<String>>) -> Result<Self, Problem> {
        match (name, names) {
            (Some(name), None) => Ok(Self(vec![name])),
            (None, Some(mut names)) => {
                names.sort_unstable();
                names.dedup();
                Ok(Self(names))
            }
            _ => Err(Problem::new(
                Kind::BadRequest,
                "name: send one lock as `name`, or several to lock together as `names`",
            )),
        }
    }

    /// Those that a guard has locked.
    pub(crate) fn locked<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        Self(names.map(str::to_owned).collect())
    }

    /// Whether this caller may lock all of them.
    pub(crate) fn may_be_locked_by(&self, caller: &Caller) -> Result<(), Problem> {
        self.0.iter().try_for_each(|name| caller.may(Verb::Lock, name))
    }

    /// How they are spoken of.
    pub(crate) fn to_text(&self) -> String {
        self.0.join(", ")
    }

    /// What a token is sealed for: no two sets have the same text.
    pub(crate) fn sealed(&self) -> String {
        match &self.0[..] {
            [name] => name.clone(),
            names => serde_json::to_string(names).expect("texts"),
        }
    }

    pub(crate) fn lock(&self, locks: &Locks) -> Lock {
        match &self.0[..] {
            [name] => locks.lock(name),
            names => locks.lock_all(names),
        }
    }

    /// What goes on with a lease of them.
    pub(crate) fn handover(&self, token: &LeaseToken) -> Handover {
        let mut names = self.0.iter();
        let first = names.next().map(String::as_str).unwrap_or_default();
        let mut handover = token.handover(first, token.ttl());
        handover.others = names.cloned().collect();
        handover
    }

    /// As fields of an answer: the one name, or all.
    pub(crate) fn fields(self) -> (Option<String>, Option<Vec<String>>) {
        match <[String; 1]>::try_from(self.0) {
            Ok([name]) => (Some(name), None),
            Err(names) => (None, Some(names)),
        }
    }
}
