//! The URL of a node, which may have a secret in it: it is shown masked, always.

use std::fmt;
use std::path::Path;

use super::ConfigError;

/// The parameters of a URL that are paths.
const PATHS: [&str; 4] = ["password_file", "ca", "cert", "key"];

/// A node's URL, with absolute paths. `Debug` and `Display` mask its password.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeUrl(String);

/// A list of them, separated by commas. Paths in it are relative to the working folder.
pub(super) fn list(text: &str, from: &'static str) -> Result<Vec<NodeUrl>, ConfigError> {
    let folder = std::path::absolute(".").unwrap_or_default();
    let urls = text.split(',').map(str::trim).filter(|url| !url.is_empty());
    let urls: Vec<NodeUrl> = urls.map(|url| NodeUrl::new(url).whole(&folder)).collect::<Result<_, _>>()?;
    if urls.is_empty() {
        let message = format!("{from} lists no node; expected URLs such as redis://a:6379,redis://b:6379");
        return Err(ConfigError::invalid(message));
    }
    Ok(urls)
}

impl NodeUrl {
    /// A URL as it is.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The store of this user on this machine: works at once, with nothing installed.
    #[cfg(feature = "embedded")]
    pub(super) fn of_this_user() -> Result<Self, ConfigError> {
        let node =
            crate::SqliteNode::user_default().map_err(|error| ConfigError::invalid(error.to_string()))?;
        if node.path().to_str().is_none() {
            return Err(ConfigError::invalid(
                "the state folder's path is not valid UTF-8; use another store: sqlite:PATH",
            ));
        }
        Ok(Self::new(node.address()))
    }

    #[cfg(not(feature = "embedded"))]
    pub(super) fn of_this_user() -> Result<Self, ConfigError> {
        Err(ConfigError::invalid(
            "no nodes are configured: set TENURE_NODES, or nodes in tenure.toml. An embedded store needs \
             the feature `embedded` of the crate tenure",
        ))
    }

    /// The same URL with paths from the root on: a relative one would be another file after `cd`.
    pub(super) fn whole(self, folder: &Path) -> Result<Self, ConfigError> {
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| {
                ConfigError::invalid(format!(
                    "the path {path:?} is not valid UTF-8; use \
                                                             another"
                ))
            })
        };
        if let Some(path) = self.0.strip_prefix("sqlite:") {
            if path.is_empty() || Path::new(path).is_absolute() {
                return Ok(self);
            }
            let path = folder.join(path);
            return Ok(Self(format!("sqlite:{}", text(&std::path::absolute(&path).unwrap_or(path))?)));
        }
        let Some((url, query)) = self.0.split_once('?') else { return Ok(self) };
        let mut parameters = vec![];
        for parameter in query.split('&') {
            parameters.push(match parameter.split_once('=') {
                // What begins with an escape is a slash, or means nothing.
                Some((name, path))
                    if PATHS.contains(&name) && !path.is_empty() && !path.starts_with(['/', '%']) =>
                {
                    format!("{name}={}/{path}", escaped(&text(folder)?))
                }
                _ => parameter.to_owned(),
            });
        }
        Ok(Self(format!("{url}?{}", parameters.join("&"))))
    }

    /// The URL with its secrets, for connecting.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same node with its password in this file, unless it has one already.
    pub(super) fn with_password_file(self, path: &str) -> Self {
        if self.has_secret() || self.0.contains("password_file=") || !self.0.starts_with("redis") {
            return self;
        }
        let joint = if self.0.contains('?') { '&' } else { '?' };
        Self(format!("{}{joint}password_file={}", self.0, escaped(path)))
    }

    /// Whether there is a password in it.
    #[must_use]
    pub fn has_secret(&self) -> bool {
        self.masked() != self.0
    }

    /// The URL with `***` in place of anything that may be a password.
    #[must_use]
    pub fn masked(&self) -> String {
        // A path has no password, whatever is in it: homes are called `/home/ann@example.org` in
        // some places.
        if self.0.starts_with("sqlite:") {
            return self.0.clone();
        }
        // What has other characters before `://` has no scheme, but perhaps a password.
        let is_scheme = |at: &usize| {
            self.0[..*at].bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        };
        let behind_scheme = self.0.find("://").filter(is_scheme).map_or(0, |at| at + 3);
        let (scheme, rest) = self.0.split_at(behind_scheme);
        // A password that was not escaped may hold any character, so the last @ counts.
        let masked = match rest.rfind('@').map(|at| (rest[..at].split_once(':'), &rest[at..])) {
            Some((Some((user, _)), behind)) => format!("{scheme}{user}:***{behind}"),
            _ => self.0.clone(),
        };
        mask_parameter(&masked)
    }
}

/// A path as a parameter of a URL.
fn escaped(path: &str) -> String {
    let mut escaped = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// No node takes a password as a parameter, but people try. Every one is masked: which of several
/// is meant, nobody knows.
fn mask_parameter(url: &str) -> String {
    const NAME: &str = "password=";
    let mut parts = url.split(NAME);
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let behind = part.find('&').map_or("", |end| &part[end..]);
        masked.extend([NAME, "***", behind]);
    }
    masked
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
            "redis://h?password=x&password=hunter2",
            "u:hunter2@h?next=://x",
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

    #[test]
    fn paths_are_whole() {
        let whole = |url: &str| NodeUrl::new(url).whole(Path::new("/a b")).unwrap().as_str().to_owned();
        for (url, expected) in [
            ("sqlite:x.db", "sqlite:/a b/x.db"),
            ("sqlite:./x/y.db", "sqlite:/a b/x/y.db"),
            ("sqlite:/x.db", "sqlite:/x.db"),
            ("sqlite:", "sqlite:"),
            ("redis://h", "redis://h"),
            ("redis://h?db=1&password_file=p%20w", "redis://h?db=1&password_file=/a%20b/p%20w"),
            ("rediss://h?ca=/ca&cert=c&key=k", "rediss://h?ca=/ca&cert=/a%20b/c&key=/a%20b/k"),
            ("redis://h?password_file=%2Frun%2Fp", "redis://h?password_file=%2Frun%2Fp"),
        ] {
            assert_eq!(whole(url), expected, "{url}");
        }
    }
}
