//! Where a service is: `http://HOST:PORT`, `https://HOST:PORT`, `unix:/PATH`.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// An address of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp { host: String, port: u16, is_encrypted: bool },
    Unix(PathBuf),
}

impl Address {
    pub(crate) const fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tcp { is_encrypted: true, .. })
    }

    /// Whether nobody on the way can read what is sent there.
    pub(crate) fn is_private(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { host, is_encrypted, .. } => {
                *is_encrypted
                    || host == "localhost"
                    || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
        }
    }

    /// What the service is called in a request.
    pub(super) fn host(&self) -> String {
        match self {
            Self::Unix(_) => "localhost".to_owned(),
            Self::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected http://HOST:PORT, https://HOST:PORT or unix:/PATH".to_owned();
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.starts_with('/') { Ok(Self::Unix(path.into())) } else { Err(expected()) };
        }
        let (rest, is_encrypted) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (rest, false),
            (_, Some(rest)) => (rest, true),
            _ => return Err(expected()),
        };
        let rest = rest.trim_end_matches('/');
        if rest.contains('@') {
            return Err(
                "pass the token with --service-token-file or TENURE_SERVICE_TOKEN, not in the URL".to_owned()
            );
        }
        if rest.contains(['/', '?', '#']) {
            return Err("a service URL has no path; remove it".to_owned());
        }
        let default = if is_encrypted { 443 } else { 80 };
        let (host, port) = match (rest.strip_prefix('['), rest.rsplit_once(':')) {
            (Some(rest), _) => {
                let (host, port) = rest.split_once(']').ok_or_else(expected)?;
                (host, port.strip_prefix(':'))
            }
            (None, Some((host, port))) => (host, Some(port)),
            (None, None) => (rest, None),
        };
        let port = port.map_or(Ok(default), |port| port.parse().map_err(|_| expected()))?;
        if host.is_empty() {
            return Err(expected());
        }
        Ok(Self::Tcp { host: host.to_owned(), port, is_encrypted })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { is_encrypted, .. } => {
                write!(f, "{}://{}", if *is_encrypted { "https" } else { "http" }, self.host())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_alike() {
        for text in [
            "http://127.0.0.1:7420",
            "https://locks.example:443",
            "http://[::1]:7420",
            "unix:/run/tenure.sock",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        let short: Address = "https://locks.example/".parse().unwrap();
        assert_eq!(short.to_string(), "https://locks.example:443");
        for text in [
            "",
            "locks.example",
            "redis://a",
            "unix:",
            "unix:tenure",
            "http://",
            "http://a:x",
            "http://a/b",
            "http://t@a",
            "http://[::1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_what_nobody_can_read_on_the_way_is_private() {
        let is_private = |text: &str| text.parse::<Address>().unwrap().is_private();
        assert!(
            is_private("http://127.0.0.1:1")
                && is_private("http://[::1]:1")
                && is_private("http://localhost:1")
        );
        assert!(is_private("https://locks.example") && is_private("unix:/run/tenure.sock"));
        assert!(!is_private("http://locks.example") && !is_private("http://192.0.2.1:7420"));
    }
}
