//! The form of the file: one line an entry, fields separated by tabs, the number of lines and a sum
//! at the end.

use std::fmt::Write;
use std::sync::Arc;

use tenure_core::NodeTime;
use tenure_core::trust::{KnownLife, Nonce};

use super::book::Book;

const LEAD: &str = "tenure-known-nodes";
const VERSION: &str = "1";

/// Why a text cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// A newer version wrote it. It is not ours to change.
    Newer,
    Damaged,
}

pub(super) fn write(book: &Book) -> String {
    let mut text = format!("{LEAD}\t{VERSION}\n");
    for ((prefix, place), entry) in &book.nodes {
        let (prefix, place) = (escaped(prefix), escaped(place));
        for KnownLife { created, nonce, process } in &entry.lives {
            let (process, created) = (escaped(process.as_deref().unwrap_or("?")), created.as_micros());
            let _ = writeln!(text, "life\t{prefix}\t{place}\t{process}\t{nonce}\t{created}");
        }
        if let Some(record) = &entry.foreign {
            let _ = writeln!(text, "foreign\t{prefix}\t{place}\t{}", escaped(record));
        }
    }
    let end = end_of(&text);
    text + &end
}

pub(super) fn read(text: &str) -> Result<Book, Unreadable> {
    let first = text.lines().next().unwrap_or_default();
    match first.split_once('\t') {
        Some((LEAD, VERSION)) => {}
        Some((LEAD, version)) if version.parse::<u32>().is_ok() => return Err(Unreadable::Newer),
        _ => return Err(Unreadable::Damaged),
    }
    let end = text.trim_end_matches('\n').rfind('\n').map_or(0, |at| at + 1);
    let (body, found) = text.split_at(end);
    if found != end_of(body) {
        return Err(Unreadable::Damaged);
    }
    let mut book = Book::default();
    body.lines().skip(1).try_for_each(|line| entry(&mut book, line)).ok_or(Unreadable::Damaged)?;
    Ok(book)
}

fn entry(book: &mut Book, line: &str) -> Option<()> {
    let fields: Vec<&str> = line.split('\t').collect();
    let (["life", prefix, place, ..] | ["foreign", prefix, place, ..]) = fields.as_slice() else {
        return None;
    };
    let key = (unescaped(prefix)?, unescaped(place)?);
    let entry = book.nodes.entry(key).or_default();
    match fields.as_slice() {
        ["life", _, _, process, nonce, created] => {
            let process = Some(unescaped(process)?).filter(|process| process != "?").map(Arc::from);
            let created = NodeTime::from_micros(created.parse().ok()?);
            entry.lives.insert(KnownLife { created, nonce: Nonce::parse(nonce)?, process });
        }
        ["foreign", _, _, record] => entry.foreign = Some(unescaped(record)?.into()),
        _ => return None,
    }
    Some(())
}

/// The last line: how many lines come before it, and their sum (FNV-1a), so that no half or mended
/// file is taken for a whole one.
fn end_of(body: &str) -> String {
    let sum = body.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("end\t{}\t{sum:016x}\n", body.lines().count())
}

/// Nothing in it ends a field or a line.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '%' | '\0'..='\x1f' | '\x7f' => {
                let _ = write!(escaped, "%{:02x}", u32::from(character));
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        let code = u8::from_str_radix(part.get(..2)?, 16).ok().filter(u8::is_ascii)?;
        plain.push(char::from(code));
        plain.push_str(&part[2..]);
    }
    Some(plain)
}
