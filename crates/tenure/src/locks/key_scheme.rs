//! How lock names become keys on the nodes.

use std::fmt;

use tenure_core::{LockKey, NameError, Prefix};

/// How lock names become keys on the nodes. All clients of the same locks must use the same scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyScheme {
    /// Prefix and name, as in almost every Redlock client. The default.
    #[default]
    Plain,
    /// Prefix and a digest of the name, as in the Redis mutex of the PHP framework Yii2. That mutex
    /// uses a single node, so only a manager with one node can share locks with it.
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

impl std::str::FromStr for KeyScheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "plain" => Ok(Self::Plain),
            #[cfg(feature = "redis")]
            "yii2" => Ok(Self::Yii2),
            _ => Err(format!("{text:?} is not a key scheme; use plain or yii2")),
        }
    }
}

impl fmt::Display for KeyScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            #[cfg(feature = "redis")]
            Self::Yii2 => "yii2",
        })
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
        use super::super::KeyScheme;
        use super::*;
        use tenure_core::Prefix;

        #[test]
        fn names_are_digested_as_yii2_does() {
            for (name, by_php) in [
                ("testmutex", "423a00e308252b5e8cf4af55c7541d01"),
                ("a/b", "ad0aa3791602632e1ea136ac77403b31"),
                ("ü", "b7f48d43a54236ba724d398018f3ba4e"),
                ("\"\\", "1cb9bcd044aec562b6708f96221d85e7"),
                ("日本 😀", "440837a4c482a28b3a02a55edf6cb95a"),
                ("tab\t", "36d5637e8d28c3afceaaf2e5f16facd3"),
                ("", "cc5fcafbf3202dc88ebb0ea2dec4d118"),
            ] {
                assert_eq!(digest(name), by_php, "{name:?}");
            }
        }

        /// PHP takes the empty name. We do not: no lock of ours has one.
        #[test]
        fn the_empty_name_is_refused_as_with_every_scheme() {
            for scheme in [KeyScheme::Plain, KeyScheme::Yii2] {
                assert!(scheme.key(&Prefix::default(), "").is_err(), "{scheme}");
            }
        }

        #[test]
        fn texts_are_escaped_as_php_does() {
            assert_eq!(json_text(r#"a/b\c"d"#), r#"a\/b\\c\"d"#);
            assert_eq!(json_text("é€😀"), r"\u00e9\u20ac\ud83d\ude00");
            assert_eq!(json_text("\0\u{8}\t\n\u{c}\r\u{1f}\u{7f}"), "\\u0000\\b\\t\\n\\f\\r\\u001f\u{7f}");
        }
    }
}
