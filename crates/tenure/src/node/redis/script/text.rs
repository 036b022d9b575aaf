//! The text of a script as the server gets it: its names replaced by what they stand for.
//!
//! | in the text | stands for |
//! |---|---|
//! | `KEYS.lock`, `ARGV.owner` | the place of that key or argument, `parameters.rs` |
//! | `GIVEN.label` | that argument if it is given, else `false` or `nil` |
//! | `OUTCOME.HELD` | the number of that outcome, `answers.rs` |
//! | `LIMIT.AGE` | a number or text that is the same for all calls |
//!
//! This costs the server nothing, unlike locals and tables, which it would make anew for each call.

use std::time::Duration;

use tenure_core::{
    ADMITTED_MAX, DEAD_MAX, FenceBounds, KEPT_LEAD, LABEL_RETENTION, LINE_RETENTION, OPENING, RESERVATION,
    RESERVED_LEAD, SHARED, SHARERS_MAX, WAITERS_MAX, WAITERS_TOLD_MAX,
};

use super::WAKE_CHANNEL;
use super::answers::Outcome;
use super::parameters::ScriptSource;

/// What is the same for all calls.
pub(super) struct Limits([(&'static str, String); 16]);

impl Limits {
    pub(super) fn new(bounds: FenceBounds) -> Self {
        let FenceBounds { slack_us, retention_us } = bounds;
        // Durations as texts: a number that is passed to a command is printed anew each time.
        let millis = |duration: Duration| format!("'{}'", duration.as_millis());
        Self([
            // How far a fence may be ahead of the node's clock and behind it, in us.
            ("SLACK", slack_us.to_string()),
            ("AGE", (retention_us / 2).to_string()),
            // A fence is kept for longer than a line that nobody touches.
            ("FENCES_OUTLIVE_LINES", (u128::from(retention_us) >= LINE_RETENTION.as_micros()).to_string()),
            // What the value of a lock begins with that is set aside, and for how long it is, in
            // ms.
            ("RESERVED", format!("'{RESERVED_LEAD}'")),
            ("RESERVATION", millis(RESERVATION)),
            // What the value of a lock begins with that was released, and that nobody is to have
            // yet.
            ("KEPT", format!("'{KEPT_LEAD}'")),
            // The value of a lock that is shared, and how many are let in at once to share it.
            ("SHARED", format!("'{SHARED}'")),
            ("ADMITTED_MAX", ADMITTED_MAX.to_string()),
            // Of so many who share a lock it is told who they are.
            ("SHARERS_MAX", SHARERS_MAX.to_string()),
            // How long a line that nobody touches is kept, in ms, and how many may wait in it.
            ("LINE_RETENTION", millis(LINE_RETENTION)),
            ("WAITERS_MAX", WAITERS_MAX.to_string()),
            // Of so many it is told who they are.
            ("WAITERS_TOLD_MAX", WAITERS_TOLD_MAX.to_string()),
            // How many waiters that are gone are passed over at a time.
            ("DEAD_MAX", DEAD_MAX.to_string()),
            // How long a lock is left to those outside the line, in ms.
            ("OPENING", millis(OPENING)),
            ("LABEL_RETENTION", millis(LABEL_RETENTION)),
            // What the channel begins with on which a client is woken.
            ("CHANNEL", format!("'{WAKE_CHANNEL}'")),
        ])
    }

    fn get(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(limit, _)| *limit == name).map(|(_, value)| value.clone())
    }
}

impl ScriptSource {
    /// The text for one lock.
    pub(super) fn spelled_out(&self, limits: &Limits) -> String {
        self.spell_out(self.text, limits)
    }

    /// The text for several locks: as a function of this name, which `batch` calls for each.
    pub(super) fn spelled_out_as(&self, name: &str, batch: &str, limits: &Limits) -> String {
        let text = self.text;
        self.spell_out(&format!("local function {name}(KEYS, ARGV)\n{text}end\n{batch}"), limits)
    }

    /// The text with its names replaced. Names that stand for nothing stay.
    fn spell_out(&self, text: &str, limits: &Limits) -> String {
        let argument = |name| Some(1 + self.arguments.iter().position(|argument| *argument == name)?);
        let key = |name: &str| {
            let is_it = |key| format!("{key:?}").eq_ignore_ascii_case(name);
            Some(1 + self.keys.iter().position(is_it)?)
        };
        let meaning = |kind, name| match kind {
            "KEYS" => key(name).map(|place| format!("KEYS[{place}]")),
            "ARGV" => argument(name).map(|place| format!("ARGV[{place}]")),
            "GIVEN" => argument(name).map(|place| format!("(ARGV[{place}] ~= '' and ARGV[{place}])")),
            "OUTCOME" => Outcome::number(name).map(|number| number.to_string()),
            "LIMIT" => limits.get(name),
            _ => None,
        };
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let (mut spelled, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, after)) = rest.split_once('.') {
            let (head, kind) = before.split_at(before.trim_end_matches(is_letter).len());
            let name_length = after.find(|letter| !is_letter(letter)).unwrap_or(after.len());
            let (name, tail) = after.split_at(name_length);
            spelled.push_str(head);
            if let Some(meaning) = meaning(kind, name) {
                spelled.push_str(&meaning);
                rest = tail;
            } else {
                spelled.push_str(kind);
                spelled.push('.');
                rest = after;
            }
        }
        spelled + rest
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameters::SOURCES;
    use super::*;

    fn limits() -> Limits {
        Limits::new(FenceBounds { slack_us: 10, retention_us: 20 })
    }

    #[test]
    fn every_name_in_a_script_stands_for_something() {
        for source in SOURCES {
            let text = source.spelled_out(&limits());
            for kind in ["KEYS.", "ARGV.", "GIVEN.", "OUTCOME.", "LIMIT."] {
                let unknown = text.lines().find(|line| !line.starts_with("--") && line.contains(kind));
                assert_eq!(unknown, None, "a name that nobody defines");
            }
        }
    }

    #[test]
    fn every_argument_and_key_of_a_script_is_used() {
        for source in SOURCES {
            let is_used = |kinds: &[&str], name: &str| {
                kinds.iter().any(|kind| source.text.contains(&format!("{kind}.{name}")))
            };
            for argument in source.arguments {
                assert!(is_used(&["ARGV", "GIVEN"], argument), "{argument} in:\n{}", source.text);
            }
            for key in source.keys {
                let name = format!("{key:?}").to_lowercase();
                assert!(is_used(&["KEYS"], &name), "{name} in:\n{}", source.text);
            }
        }
    }

    #[test]
    fn names_are_replaced_and_nothing_else() {
        let text =
            "x = 'a.b' .. KEYS.fence..ARGV.owner, GIVEN.owner, LIMIT.AGE, OUTCOME.NOT_HELD, KEYS.fences";
        let source =
            ScriptSource { text, keys: &[super::super::parameters::Key::Fence], arguments: &["owner"] };
        let expected = "x = 'a.b' .. KEYS[1]..ARGV[1], (ARGV[1] ~= '' and ARGV[1]), 10, 0, KEYS.fences";
        assert_eq!(source.spelled_out(&limits()), expected);
    }
}
