//! The random value that signs an attempt.
//!
//! Every attempt has its own: a late release of attempt *k* must not delete the key of attempt *k +
//! 1*.

use std::fmt;

const BYTES: usize = 20;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// 160 random bits that name the owner of a key on a node.
///
/// It is enough to extend and release the lock, so `Debug` shows only its first digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerToken([u8; BYTES]);

/// The randomness one attempt needs. The caller draws it from the operating system; the core never
/// does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entropy {
    /// The owner token of the attempt; never used for a second one.
    pub token: OwnerToken,
    /// Decides the jitter of the pause if the attempt fails.
    pub dice: u64,
}

/// A text that is not an owner token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenError;

impl OwnerToken {
    /// The token made of these random bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// The token as 40 hexadecimal digits, as the nodes store it.
    #[must_use]
    pub fn to_hex(&self) -> [u8; BYTES * 2] {
        let mut digits = [0; BYTES * 2];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
        digits
    }

    /// Reads the 40 hexadecimal digits that `Display` writes.
    ///
    /// # Errors
    /// [`TokenError`] if the text has another length or a character that is no lower-case
    /// hexadecimal digit.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let digits = text.as_bytes();
        if digits.len() != BYTES * 2 {
            return Err(TokenError);
        }
        let mut bytes = [0; BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

fn digit(character: u8) -> Result<u8, TokenError> {
    match character {
        b'0'..=b'9' => Ok(character - b'0'),
        b'a'..=b'f' => Ok(character - b'a' + 10),
        _ => Err(TokenError),
    }
}

impl fmt::Display for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.to_hex()).unwrap_or_default())
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerToken({:02x}{:02x}..)", self.0[0], self.0[1])
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an owner token: expected {} lowercase hexadecimal digits", BYTES * 2)
    }
}

impl std::error::Error for TokenError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_as_it_was_written() {
        let token = OwnerToken::from_bytes(*b"0123456789abcdefghi\xff");
        assert_eq!(OwnerToken::parse(&token.to_string()), Ok(token));
    }

    #[test]
    fn a_text_that_is_no_token_is_refused() {
        for text in ["", "00", &"g".repeat(40), &"A".repeat(40), &"0".repeat(41), &"é".repeat(20)] {
            assert_eq!(OwnerToken::parse(text), Err(TokenError), "{text}");
        }
    }

    #[test]
    fn debug_does_not_give_the_token_away() {
        let token = OwnerToken::from_bytes([0xab; 20]);
        assert_eq!(format!("{token:?}"), "OwnerToken(abab..)");
    }
}
