//! What a caller may do, and with which locks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What can be done with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// See who holds it.
    Read,
    /// Acquire it; extend and release it with the token of its lease.
    Lock,
    /// Take it from whoever holds it.
    Force,
    /// See the figures of the service.
    Metrics,
}

/// Some of it, with some locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// What.
    pub may: Vec<Verb>,
    /// What the names begin with: one of these. Without any, all locks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefixes: Vec<String>,
}

impl Rights {
    /// Whether this is among it, with some lock.
    pub(crate) fn has(&self, verb: Verb) -> bool {
        self.may.contains(&verb)
    }

    /// Whether this is among it, with this lock. The empty name stands for all of them: it begins
    /// with nothing.
    pub(crate) fn covers(&self, verb: Verb, name: &str) -> bool {
        let is_ours = |prefix: &String| name.starts_with(prefix.as_str());
        self.has(verb) && (self.prefixes.is_empty() || self.prefixes.iter().any(is_ours))
    }
}

impl Verb {
    const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Lock => "lock",
            Self::Force => "force",
            Self::Metrics => "metrics",
        }
    }
}

impl std::str::FromStr for Verb {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Read, Self::Lock, Self::Force, Self::Metrics];
        let found = all.into_iter().find(|verb| verb.word() == text);
        found.ok_or_else(|| format!("{text:?} is not a right; expected read, lock, force or metrics"))
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.may.iter().map(|verb| verb.word()).collect();
        f.write_str(&words.join(", "))?;
        match &self.prefixes[..] {
            [] => Ok(()),
            prefixes => {
                let shown: Vec<String> = prefixes.iter().map(|prefix| format!("{prefix:?}")).collect();
                write!(f, ", names that start with {}", shown.join(" or "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_those_that_were_given_for_names_that_begin_so() {
        let rights = Rights { may: vec![Verb::Read, Verb::Lock], prefixes: vec!["a/".into(), "b".into()] };
        for name in ["a/", "a/x", "b", "bb"] {
            assert!(rights.covers(Verb::Lock, name) && rights.covers(Verb::Read, name), "{name}");
            assert!(!rights.covers(Verb::Force, name));
        }
        for name in ["", "a", "A/x", "x/a/", "\u{e4}a/"] {
            assert!(!rights.covers(Verb::Lock, name), "{name:?}");
        }
        assert_eq!(rights.to_string(), r#"read, lock, names that start with "a/" or "b""#);
        let all = Rights { may: vec![Verb::Read], prefixes: vec![] };
        assert!(all.covers(Verb::Read, "") && all.covers(Verb::Read, "x"));
    }
}
