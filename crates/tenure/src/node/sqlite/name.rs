//! What the row of a name says.

use rusqlite::Row;
use tenure_core::node::{Label, LastFence, Name};
use tenure_core::{Entry, Fence, Owner, OwnerToken, RESERVED_LEAD, Ticket};

use super::trouble::{Result, Trouble};

/// Reads `owner, ends_ms, fence, fence_ends_ms, queued, label_owner, label, label_ends_ms,
/// line_ends_ms`.
pub(super) fn read_name(row: &Row<'_>) -> Result<Name> {
    let fence = match row.get::<_, Option<i64>>(2)? {
        Some(fence) => Some(LastFence {
            fence: Fence::new(unsigned(fence)?),
            ends_ms: unsigned(row.get(3)?)?,
            queued: row.get(4)?,
        }),
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
    Ok(Name { entry: read_entry(row)?, fence, label, line_ends_ms: unsigned(row.get(8)?)?, open_ends_ms })
}

/// Reads `owner, ends_ms`.
pub(super) fn read_entry(row: &Row<'_>) -> Result<Option<Entry>> {
    let Some(text) = row.get::<_, Option<String>>(0)? else { return Ok(None) };
    let (text, counts_from_ms) = match text.split_once('~') {
        Some((owner, from_ms)) => (owner, Some(from_ms.parse().map_err(|_| damaged("an owner"))?)),
        None => (&*text, None),
    };
    let owner = match text.strip_prefix(RESERVED_LEAD) {
        Some(ticket) => Ticket::parse(ticket).map(Owner::Reserved),
        None => OwnerToken::parse(text).ok().map(Owner::Token),
    };
    let owner = owner.ok_or_else(|| damaged("an owner"))?;
    Ok(Some(Entry { owner, ends_ms: unsigned(row.get(1)?)?, counts_from_ms }))
}

/// An owner, and behind it, if its lock was put back, from when on that counts.
pub(super) fn write_owner(entry: &Entry) -> String {
    match entry.counts_from_ms {
        Some(from_ms) => format!("{}~{from_ms}", entry.owner),
        None => entry.owner.to_string(),
    }
}

pub(super) fn damaged(what: &str) -> Trouble {
    Trouble::refused(format!(
        "{what} in it cannot be read. Another program has written there; end every program that uses it and move it away"
    ))
}

pub(super) fn unsigned(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| damaged("a number"))
}

/// As the database counts. Nothing that matters is as large.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
