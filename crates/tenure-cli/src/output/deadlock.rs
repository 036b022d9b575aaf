//! What is said of a deadlock: who holds what and waits for what, and how to end it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tenure::{Circle, CircleMember};

use super::text::{plain, shell_word};

/// In one line. `is_ours`: its first member is this process.
pub(super) fn deadlock(circle: &Circle, is_ours: bool) -> String {
    if let ([member], true) = (&circle.members[..], is_ours) {
        let name = plain(&format!("{:?}", member.holds));
        return format!(
            "deadlock: you are waiting for {name} inside a command that holds {name}, which is released \
             only when that command ends"
        );
    }
    let members = circle.members.iter().enumerate();
    let members = members.map(|(place, member)| {
        let CircleMember { holds, waits_for, .. } = member;
        match is_ours && place == 0 {
            true => format!("you hold {holds:?} and wait for {waits_for:?}"),
            false => format!("{} holds {holds:?} and waits for {waits_for:?}", member.who()),
        }
    });
    format!("deadlock: {}", plain(&members.collect::<Vec<_>>().join("; ")))
}

/// How to end it.
pub(super) fn remedy(circle: &Circle) -> String {
    let names: BTreeSet<&str> = circle.names().collect();
    let names: Vec<String> = names.into_iter().map(shell_word).collect();
    let all = if names.len() == 2 { "both" } else { "all" };
    match names.len() {
        1 => "Stop one of the two commands".to_owned(),
        _ => format!("Release one of them, or lock {all} at once: tenure run {} -- ...", names.join(" ")),
    }
}

pub(super) fn json(circle: &Circle) -> Value {
    let member = |member: &CircleMember| {
        let client = member.client.map(|client| client.to_string());
        json!({
            "label": member.label.as_deref(), "client": client, "holds": &*member.holds,
            "waits_for": &*member.waits_for,
        })
    };
    circle.members.iter().map(member).collect()
}
