//! Bytes as hexadecimal digits.

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn read_hex<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    // A sign would be taken for a digit.
    if text.len() != BYTES * 2 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(0..) {
        *byte = u8::from_str_radix(text.get(2 * pair..2 * pair + 2)?, 16).ok()?;
    }
    Some(bytes)
}
