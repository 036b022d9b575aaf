//! What the row of a name says.

use rusqlite::Row;
use tenure_core::node::{Label, LastFence, Name};
use tenure_core::{
    Entry, Fence, Group, Hold, KEPT_LEAD, OWNED, Owner, OwnerId, OwnerToken, RESERVED_LEAD, SHARED, Ticket,
};

use super::trouble::{Result, Trouble};

/// The fence of an owner's holds that have none.
const NO_FENCE: &str = "-";

/// Reads `owner, ends_ms, fence, fence_ends_ms, queued, label_owner, label, label_ends_ms,
/// line_ends_ms, shared_fence, alone_fence, fence_owner`.
pub(super) fn read_name(row: &Row<'_>) -> Result<Name> {
    let fence = match row.get::<_, Option<i64>>(2)? {
        Some(fence) => {
            // They are of this fence only; older versions write others and leave them.
            let (alone, owner) = match (row.get::<_, Option<i64>>(9)?, row.get::<_, Option<i64>>(10)?) {
                (Some(shared), Some(alone)) if shared == fence => (alone, row.get::<_, Option<String>>(11)?),
                _ => (fence, None),
            };
            let owner = owner.map(|owner| OwnerId::new(&owner)).transpose();
            Some(LastFence {
                fence: Fence::new(unsigned(fence)?),
                owner: owner.map_err(|_| damaged("an owner"))?,
                alone: Fence::new(unsigned(alone)?),
                ends_ms: unsigned(row.get(3)?)?,
                queued: row.get(4)?,
            })
        }
        None => None,
    };
    let label = match (row.get::<_, Option<String>>(5)?, row.get::<_, Option<String>>(6)?) {
        (Some(owner), Some(text)) => {
            let owner = OwnerToken::parse(&owner).map_err(|_| damaged("a label's owner"))?;
            Some(Label { owner, text: text.into(), ends_ms: unsigned(row.get(7)?)? })
        }
        _ => None,
    };
    // One is the mark alone, and long ago.
    let open_ends_ms = unsigned(row.get(4)?)?;
    let (entry, holds, group) = (read_entry(row)?, read_holds(row)?, read_group(row)?);
    Ok(Name { entry, holds, group, fence, label, line_ends_ms: unsigned(row.get(8)?)?, open_ends_ms })
}

/// Reads `owner`: whose the holds are, if they are one owner's.
pub(super) fn read_group(row: &Row<'_>) -> Result<Option<Group>> {
    let text = row.get::<_, Option<String>>(0)?.unwrap_or_default();
    let mut words = text.split(' ');
    if words.next() != Some(OWNED) {
        return Ok(None);
    }
    let group = words.next().zip(words.next()).and_then(|(fence, owner)| {
        let fence = if fence == NO_FENCE { None } else { Some(Fence::new(fence.parse().ok()?)) };
        Some(Group { owner: OwnerId::new(owner).ok()?, fence })
    });
    group.map(Some).ok_or_else(|| damaged("an owner"))
}

/// Reads `owner`: the holds of a group.
fn read_holds(row: &Row<'_>) -> Result<Vec<Hold>> {
    let text = row.get::<_, Option<String>>(0)?.unwrap_or_default();
    let (separator, before) = match (text.starts_with(SHARED), text.starts_with(OWNED)) {
        (true, _) => (',', 1),
        (_, true) => (' ', 3),
        _ => return Ok(vec![]),
    };
    let holds = text.split(separator).skip(before).map(|hold| {
        let (owner, ends_ms) = hold.split_once('@')?;
        let (owner, from_ms) =
            owner.split_once('~').map_or((owner, None), |(owner, from)| (owner, Some(from)));
        let counts_from_ms = match from_ms {
            Some(from_ms) => Some(from_ms.parse().ok()?),
            None => None,
        };
        Some(Hold { owner: OwnerToken::parse(owner).ok()?, ends_ms: ends_ms.parse().ok()?, counts_from_ms })
    });
    holds.collect::<Option<_>>().ok_or_else(|| damaged("a hold"))
}

/// Reads `owner, ends_ms`.
pub(super) fn read_entry(row: &Row<'_>) -> Result<Option<Entry>> {
    let Some(text) = row.get::<_, Option<String>>(0)? else { return Ok(None) };
    let group = match (text.starts_with(SHARED), text.starts_with(OWNED)) {
        (true, _) => Some(Owner::Shared),
        (_, true) => Some(Owner::Owned),
        _ => None,
    };
    if let Some(owner) = group {
        return Ok(Some(Entry { owner, ends_ms: unsigned(row.get(1)?)?, counts_from_ms: None }));
    }
    let (text, counts_from_ms) = match text.split_once('~') {
        Some((owner, from_ms)) => (owner, Some(from_ms.parse().map_err(|_| damaged("an owner"))?)),
        None => (&*text, None),
    };
    let owner = match (text.strip_prefix(RESERVED_LEAD), text.strip_prefix(KEPT_LEAD)) {
        (Some(ticket), _) => Ticket::parse(ticket).map(Owner::Reserved),
        (_, Some(token)) => OwnerToken::parse(token).ok().map(Owner::Kept),
        _ => OwnerToken::parse(text).ok().map(Owner::Token),
    };
    let owner = owner.ok_or_else(|| damaged("an owner"))?;
    Ok(Some(Entry { owner, ends_ms: unsigned(row.get(1)?)?, counts_from_ms }))
}

/// An owner, and behind it, if its lock was put back, from when on that counts; of a group all of
/// its holds, each with its end.
pub(super) fn write_owner(entry: &Entry, holds: &[Hold], group: Option<&Group>) -> String {
    let from =
        |counts_from_ms: Option<u64>| counts_from_ms.map_or_else(String::new, |from| format!("~{from}"));
    let mut text = format!("{}{}", entry.owner, from(entry.counts_from_ms));
    if let Some(Group { owner, fence }) = group {
        let fence = fence.map_or_else(|| NO_FENCE.to_owned(), |fence| fence.to_string());
        text.push_str(&format!(" {fence} {owner}"));
    }
    let separator = if group.is_some() { ' ' } else { ',' };
    for hold in holds {
        text.push_str(&format!("{separator}{}{}@{}", hold.owner, from(hold.counts_from_ms), hold.ends_ms));
    }
    text
}

pub(super) fn damaged(what: &str) -> Trouble {
    Trouble::refused(format!(
        "{what} in it cannot be read: another program has written to it. Stop every program that uses it, \
         then move it away"
    ))
}

pub(super) fn unsigned(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| damaged("a number"))
}

/// As the database counts. Nothing that matters is as large.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
