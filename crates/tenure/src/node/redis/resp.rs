//! The Redis protocol, as far as it is needed: commands out, replies in.

use redis_protocol::resp3::decode::complete::decode_range;
use redis_protocol::resp3::types::RangeFrame;

/// A reply larger than this is no reply to any command of ours, but a peer that does not speak the
/// protocol.
const REPLY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A text longer than this is no token of ours. It is passed over without being kept.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Lists within lists within lists: no reply of ours has more than three, and each costs stack.
const NESTING_MAX: usize = 64;

/// What is shown of an answer that is not Redis's: enough to know a web server by.
const GREETING_BYTES: usize = 16;

/// Appends a command to `buffer`.
pub(super) fn encode(buffer: &mut Vec<u8>, parts: &[&[u8]]) {
    push_count(buffer, parts.len());
    parts.iter().for_each(|part| push_part(buffer, part));
}

/// Begins a command of so many parts.
pub(super) fn push_count(buffer: &mut Vec<u8>, parts: usize) {
    push_header(buffer, b'*', parts);
}

/// Appends one part of a command.
pub(super) fn push_part(buffer: &mut Vec<u8>, part: &[u8]) {
    push_header(buffer, b'$', part.len());
    buffer.extend_from_slice(part);
    buffer.extend_from_slice(b"\r\n");
}

/// Appends one part of a command that is made of pieces.
pub(super) fn push_joined(buffer: &mut Vec<u8>, pieces: &[&[u8]]) {
    push_header(buffer, b'$', pieces.iter().map(|piece| piece.len()).sum());
    pieces.iter().for_each(|piece| buffer.extend_from_slice(piece));
    buffer.extend_from_slice(b"\r\n");
}

fn push_header(buffer: &mut Vec<u8>, kind: u8, number: usize) {
    // Nearly all, and in one piece: there are many of them.
    if let Ok(small @ 10..100) = u8::try_from(number) {
        return buffer.extend_from_slice(&[kind, b'0' + small / 10, b'0' + small % 10, b'\r', b'\n']);
    }
    buffer.push(kind);
    buffer.extend_from_slice(Decimal::of(number as u64).as_bytes());
    buffer.extend_from_slice(b"\r\n");
}

/// A number as text, without an allocation.
pub(super) struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    pub(super) fn of(mut number: u64) -> Self {
        let (mut digits, mut start) = ([b'0'; 20], 20);
        loop {
            start -= 1;
            digits[start] = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
            if number == 0 {
                return Self { digits, start };
            }
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Number(i64),
    Text(String),
    Error(String),
    /// A list, or the keys and values of a map in turn.
    List(Vec<Value>),
    /// Something the server says unasked.
    Push(Push),
}

/// What a server says unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Push {
    /// Keys that it watches for us have changed; all of them, if it does not say which.
    Changed(Option<Vec<String>>),
    /// A message on our channel.
    Message(String),
    /// We listen on our channel.
    Subscribed,
    /// Anything else.
    Other,
}

/// Takes one whole reply off the front of `buffer`: the reply and its length. Of a text that is too
/// long to be ours only the beginning need be there: its length then reaches beyond the buffer.
///
/// # Errors
/// What is wrong with it, if the bytes are not the Redis protocol.
pub(super) fn decode(buffer: &[u8]) -> Result<Option<(Value, usize)>, String> {
    if let Some(length) = length_of_long_text(buffer) {
        return Ok(Some((Value::Text("(a long text)".to_owned()), length)));
    }
    if is_nested_too_deeply(buffer) {
        return Err("not the Redis protocol: lists nested too deeply".to_owned());
    }
    match decode_range(buffer).map_err(|_| unlike_redis(buffer))? {
        Some((frame, length)) => Ok(Some((value(buffer, frame)?, length))),
        None if buffer.len() > REPLY_BYTES_MAX => {
            Err("not the Redis protocol: a reply without an end".to_owned())
        }
        None => Ok(None),
    }
}

/// How it begins tells people what answers there instead; the rest may be a secret.
fn unlike_redis(buffer: &[u8]) -> String {
    let greeting = &buffer[..buffer.len().min(GREETING_BYTES)];
    format!("not the Redis protocol: the reply starts with \"{}\"", greeting.escape_ascii())
}

/// The length of the whole reply, if it is a text that is too long to be ours.
fn length_of_long_text(buffer: &[u8]) -> Option<usize> {
    let header = buffer.strip_prefix(b"$")?;
    let end = header.iter().take(20).position(|byte| *byte == b'\r')?;
    let length: usize = std::str::from_utf8(&header[..end]).ok()?.parse().ok()?;
    (length > TEXT_BYTES_MAX).then(|| length.saturating_add(end + 5))
}

/// Whether so many lists begin right after each other that taking them apart could use up the
/// stack.
fn is_nested_too_deeply(buffer: &[u8]) -> bool {
    let begins_list = |line: &[u8]| matches!(line.first(), Some(b'*' | b'%' | b'~' | b'>' | b'|'));
    if !begins_list(buffer) {
        return false;
    }
    let mut depth = 0;
    buffer.split(|byte| *byte == b'\n').any(|line| {
        depth = if begins_list(line) { depth + 1 } else { 0 };
        depth > NESTING_MAX
    })
}

fn value(buffer: &[u8], frame: RangeFrame) -> Result<Value, String> {
    let text = |(start, end): (usize, usize)| String::from_utf8_lossy(&buffer[start..end]).into_owned();
    let list = |frames: Vec<RangeFrame>| -> Result<Vec<Value>, String> {
        frames.into_iter().map(|frame| value(buffer, frame)).collect()
    };
    Ok(match frame {
        RangeFrame::Null => Value::Null,
        RangeFrame::Number { data, .. } => Value::Number(data),
        RangeFrame::Boolean { data, .. } => Value::Number(i64::from(data)),
        RangeFrame::BlobString { data, .. }
        | RangeFrame::SimpleString { data, .. }
        | RangeFrame::BigNumber { data, .. }
        | RangeFrame::VerbatimString { data, .. } => Value::Text(text(data)),
        RangeFrame::BlobError { data, .. } | RangeFrame::SimpleError { data, .. } => Value::Error(text(data)),
        RangeFrame::Double { data, .. } => Value::Text(data.to_string()),
        RangeFrame::Array { data, .. } => Value::List(list(data)?),
        RangeFrame::Set { data, .. } => Value::List(list(data.into_iter().collect())?),
        RangeFrame::Map { data, .. } => {
            Value::List(list(data.into_iter().flat_map(|(key, value)| [key, value]).collect())?)
        }
        RangeFrame::Push { data, .. } => {
            let parts = list(data)?;
            Value::Push(match &parts[..] {
                [Value::Text(kind), Value::List(keys)] if kind == "invalidate" => {
                    let key = |key: &Value| if let Value::Text(key) = key { Some(key.clone()) } else { None };
                    Push::Changed(Some(keys.iter().filter_map(key).collect()))
                }
                [Value::Text(kind), ..] if kind == "invalidate" => Push::Changed(None),
                [Value::Text(kind), _, Value::Text(message)] if kind == "message" => {
                    Push::Message(message.clone())
                }
                [Value::Text(kind), ..] if kind == "subscribe" => Push::Subscribed,
                _ => Push::Other,
            })
        }
        RangeFrame::Hello { .. } | RangeFrame::ChunkedString(_) => {
            return Err("not the Redis protocol: an invalid reply".to_owned());
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_list_of_strings_with_their_lengths() {
        let mut buffer = vec![];
        encode(&mut buffer, &[b"SET", b"", b"a\r\nb"]);
        assert_eq!(buffer, b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n");
    }

    #[test]
    fn numbers_are_written_as_decimals() {
        for number in [0, 7, 10, 1_234_567_890, u64::MAX] {
            assert_eq!(Decimal::of(number).as_bytes(), number.to_string().as_bytes());
        }
    }

    #[test]
    fn replies_come_whole_or_not_at_all() {
        let whole = b"*2\r\n:5\r\n$2\r\nok\r\n-ERR no\r\n";
        let list = Value::List(vec![Value::Number(5), Value::Text("ok".to_owned())]);
        for length in 0..whole.len() {
            let expected = (length >= 16).then(|| (list.clone(), 16));
            assert_eq!(decode(&whole[..length]).unwrap(), expected, "{length} bytes");
        }
        assert_eq!(decode(&whole[16..]).unwrap(), Some((Value::Error("ERR no".to_owned()), 9)));
    }

    #[test]
    fn maps_are_lists_and_null_is_null() {
        let map = b"%1\r\n$2\r\nid\r\n:7\r\n";
        assert_eq!(
            decode(map).unwrap().unwrap().0,
            Value::List(vec![Value::Text("id".to_owned()), Value::Number(7)])
        );
        assert_eq!(decode(b"_\r\n").unwrap().unwrap().0, Value::Null);
    }

    #[test]
    fn a_text_too_long_to_be_ours_is_passed_over() {
        let reply = b"$5000000\r\nxxxx";
        let (value, length) = decode(reply).unwrap().unwrap();
        assert_eq!((value, length), (Value::Text("(a long text)".to_owned()), 5_000_000 + 12));
    }

    #[test]
    fn lists_within_lists_end_somewhere() {
        assert!(decode(&b"*1\r\n".repeat(1_000_000)).is_err());
        assert!(decode(&[b"*2\r\n:1\r\n".as_slice(), &b"*1\r\n".repeat(1_000)].concat()).is_err());
        assert_eq!(decode(&b"*1\r\n".repeat(10)).unwrap(), None);
    }

    #[test]
    fn what_is_not_the_protocol_is_an_error() {
        assert!(decode(b"HTTP/1.1 400 Bad Request\r\n\r\n").is_err());
    }
}
