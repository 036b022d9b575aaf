//! How lock names become keys on the nodes.

use tenure_core::{LockKey, NameError, Prefix};

/// How lock names become keys on the nodes. Every client of the same locks must use the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyScheme {
    /// Prefix and name, as almost every Redlock client does it. The default.
    #[default]
    Plain,
    /// Prefix and a digest of the name, as the Redis mutex of the PHP framework Yii2 does it. That
    /// one uses a single node, so only a manager with one node can share locks with it.
    #[cfg(feature = "redis")]
    Yii2,
}

impl KeyScheme {
    pub(crate) fn key(self, prefix: &Prefix, name: &str) -> Result<LockKey, NameError> {
        match self {
            Self::Plain => LockKey::new(prefix, name),
            #[cfg(feature = "redis")]
            Self::Yii2 => LockKey::with_digest(prefix, name, &yii2::digest(name)),
        }
    }
}

#[cfg(feature = "redis")]
mod yii2 {
    use std::fmt::Write;

    use md5::{Digest, Md5};

    /// `md5(json_encode(["yii\redis\Mutex", $name]))`, as PHP computes it.
    pub(super) fn digest(name: &str) -> String {
        let json = format!(r#"["yii\\redis\\Mutex","{}"]"#, json_text(name));
        Md5::digest(json).iter().fold(String::new(), |mut digits, byte| {
            let _ = write!(digits, "{byte:02x}");
            digits
        })
    }

    /// A text as PHP's `json_encode` writes it: slashes and everything beyond ASCII escaped.
    fn json_text(text: &str) -> String {
        let mut json = String::with_capacity(text.len());
        for character in text.chars() {
            match character {
                '"' => json.push_str("\\\""),
                '\\' => json.push_str("\\\\"),
                '/' => json.push_str("\\/"),
                '\u{8}' => json.push_str("\\b"),
                '\u{c}' => json.push_str("\\f"),
                '\n' => json.push_str("\\n"),
                '\r' => json.push_str("\\r"),
                '\t' => json.push_str("\\t"),
                ' '..='\u{7f}' => json.push(character),
                _ => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        let _ = write!(json, "\\u{unit:04x}");
                    }
                }
            }
        }
        json
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn names_are_digested_as_yii2_does() {
            assert_eq!(digest("testmutex"), "423a00e308252b5e8cf4af55c7541d01");
        }

        #[test]
        fn texts_are_escaped_as_php_does() {
            assert_eq!(json_text(r#"a/b\c"d"#), r#"a\/b\\c\"d"#);
            assert_eq!(json_text("é€😀"), r"\u00e9\u20ac\ud83d\ude00");
            assert_eq!(json_text("\0\u{8}\t\n\u{c}\r\u{1f}\u{7f}"), "\\u0000\\b\\t\\n\\f\\r\\u001f\u{7f}");
        }
    }
}
