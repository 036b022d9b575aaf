//! The URL of a node, which may have a secret in it: it is shown masked, always.

use std::fmt;

/// A node's URL as it was given.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct NodeUrl(String);

impl NodeUrl {
    pub(crate) fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The URL with its secrets, for whoever connects.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The same node with its password in this file, unless it has one already.
    pub(crate) fn with_password_file(self, path: &str) -> Self {
        if self.has_secret() || self.0.contains("password_file=") || !self.0.starts_with("redis") {
            return self;
        }
        let joint = if self.0.contains('?') { '&' } else { '?' };
        let mut escaped = String::new();
        for byte in path.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => {
                    escaped.push(char::from(byte));
                }
                _ => escaped.push_str(&format!("%{byte:02X}")),
            }
        }
        Self(format!("{}{joint}password_file={escaped}", self.0))
    }

    pub(crate) fn has_secret(&self) -> bool {
        self.masked() != self.0
    }

    /// The URL with `***` in place of whatever may be a password.
    pub(crate) fn masked(&self) -> String {
        // A path has no password, whatever is in it: homes are called `/home/ann@example.org` in some places.
        if self.0.starts_with("sqlite:") {
            return self.0.clone();
        }
        let behind_scheme = self.0.find("://").map_or(0, |at| at + 3);
        let (scheme, rest) = self.0.split_at(behind_scheme);
        // A password that was not escaped may hold any character, so the last @ counts.
        let masked = match rest.rfind('@').map(|at| (rest[..at].split_once(':'), &rest[at..])) {
            Some((Some((user, _)), behind)) => format!("{scheme}{user}:***{behind}"),
            _ => self.0.clone(),
        };
        mask_parameter(masked)
    }
}

/// No node takes a password as a parameter, but people try.
fn mask_parameter(url: String) -> String {
    let Some(at) = url.find("password=").map(|at| at + "password=".len()) else { return url };
    let end = url[at..].find('&').map_or(url.len(), |length| at + length);
    format!("{}***{}", &url[..at], &url[end..])
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked())
    }
}

impl fmt::Debug for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.masked())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_ever_shown() {
        for url in [
            "redis://:hunter2@h",
            "redis://u:hunter2@h:1/2?db=1",
            "redis://u:hun@ter2/x@h",
            "u:hunter2@h",
            "nonsense://a:hunter2@",
            "redis://h?password=hunter2",
            "redis://u@h?db=1&password=hunter2&x=1",
        ] {
            let url = NodeUrl::new(url);
            for shown in [url.to_string(), format!("{url:?}"), format!("{url:#?}")] {
                assert!(!shown.contains("hunter2") && !shown.contains("ter2"), "{shown}");
            }
            assert!(url.has_secret());
        }
        for url in [
            "redis://h",
            "redis://user@h",
            "sqlite:/a/b",
            "sqlite:/a:b@c/d",
            "redis://h?password_file=/run/secret",
        ] {
            assert_eq!(NodeUrl::new(url).to_string(), url);
            assert!(!NodeUrl::new(url).has_secret());
        }
    }

    #[test]
    fn a_password_file_is_added_where_there_is_no_password() {
        let with = |url: &str| NodeUrl::new(url).with_password_file("/a b").as_str().to_owned();
        assert_eq!(with("redis://h"), "redis://h?password_file=/a%20b");
        assert_eq!(with("redis://h?db=1"), "redis://h?db=1&password_file=/a%20b");
        assert_eq!(with("redis://:x@h"), "redis://:x@h");
        assert_eq!(with("sqlite:/x"), "sqlite:/x");
    }
}
