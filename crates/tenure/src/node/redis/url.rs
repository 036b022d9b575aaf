//! URLs of Redis nodes.

use std::path::PathBuf;

use url::Url;

use super::{Endpoint, Password, RedisNode, TlsFiles};
use crate::node::url::UrlError;

const PORT_DEFAULT: u16 = 6379;

pub(super) fn parse(text: &str) -> Result<RedisNode, UrlError> {
    let url = Url::parse(text).map_err(|error| UrlError::NotAUrl { reason: error.to_string() })?;
    // A password with such characters ends the host too early, and its rest would be taken for
    // something else. What was written counts: `..` in a path takes away what was before it.
    let authority = text.find("://").map_or(0, |at| at + 3);
    let rest = text[authority..].find(['/', '?', '#']).map_or("", |at| &text[authority + at..]);
    if url.fragment().is_some() || rest.contains('@') {
        let reason = "write #, /, ?, @ and % in user, password and paths as %23, %2F, %3F, %40 and %25";
        return Err(UrlError::NotAUrl { reason: reason.to_owned() });
    }
    let scheme = url.scheme().to_owned();
    let tls = match scheme.as_str() {
        "redis" => None,
        "redis+unix" if cfg!(unix) => None,
        "rediss" if cfg!(feature = "tls") => Some(TlsFiles::default()),
        "rediss" => return Err(UrlError::NoTls),
        _ => return Err(UrlError::Scheme { scheme }),
    };
    let mut node = RedisNode {
        address: "".into(),
        endpoint: endpoint(&url)?,
        user: Some(decoded(url.username())).filter(|user| !user.is_empty()),
        password: url.password().map(|password| Password::Text(decoded(password))),
        database: 0,
        tls,
    };
    if matches!(node.endpoint, Endpoint::Tcp { .. }) {
        node.database = database(url.path().trim_start_matches('/'))?;
    }
    parameters(&mut node, &url)?;
    node.address = match &node.endpoint {
        Endpoint::Tcp { host, port } => format!("{scheme}://{host}:{port}/{}", node.database),
        Endpoint::Unix(path) => format!("{scheme}://{}?db={}", path.display(), node.database),
    }
    .into();
    Ok(node)
}

fn endpoint(url: &Url) -> Result<Endpoint, UrlError> {
    if url.scheme() == "redis+unix" {
        let path = decoded(url.path());
        let example = "redis+unix:///run/redis.sock";
        return match path.len() {
            0 | 1 => Err(UrlError::Missing { missing: "path", example }),
            _ if url.host().is_some() => Err(UrlError::Missing { missing: "third slash", example }),
            _ => Ok(Endpoint::Unix(PathBuf::from(path))),
        };
    }
    let host = url.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or(UrlError::Missing { missing: "host", example: "redis://host:6379" })?;
    Ok(Endpoint::Tcp { host: host.to_owned(), port: url.port().unwrap_or(PORT_DEFAULT) })
}

fn parameters(node: &mut RedisNode, url: &Url) -> Result<(), UrlError> {
    let (mut cert, mut key) = (None, None);
    for (name, value) in url.query_pairs() {
        let path = || Some(PathBuf::from(&*value));
        match (&*name, &mut node.tls) {
            ("db", _) => node.database = database(&value)?,
            ("user", _) => node.user = Some(value.into_owned()),
            ("password_file", _) => node.password = path().map(Password::File),
            ("ca", Some(tls)) => tls.ca = path(),
            ("cert", Some(_)) => cert = path(),
            ("key", Some(_)) => key = path(),
            _ => {
                let (parameter, scheme) = (name.into_owned(), url.scheme().to_owned());
                return Err(UrlError::Parameter { parameter, scheme });
            }
        }
    }
    match (cert, key, &mut node.tls) {
        (Some(cert), Some(key), Some(tls)) => tls.client = Some((cert, key)),
        (None, None, _) => {}
        _ => return Err(UrlError::HalfCertificate),
    }
    Ok(())
}

fn database(text: &str) -> Result<u32, UrlError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| UrlError::Database { database: text.to_owned() })
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_where_and_who() {
        let node = parse("redis://app:p%40ss@Host-1:7000/3").unwrap();
        assert_eq!(node.endpoint, Endpoint::Tcp { host: "Host-1".to_owned(), port: 7000 });
        assert_eq!((node.user.as_deref(), node.database), (Some("app"), 3));
        assert!(node.password == Some(Password::Text("p@ss".to_owned())));
        assert_eq!(&*node.address, "redis://Host-1:7000/3");
        assert_eq!(&*parse("redis://localhost").unwrap().address, "redis://localhost:6379/0");
        assert_eq!(&*parse("redis://[::1]:7001").unwrap().address, "redis://[::1]:7001/0");
    }

    #[test]
    fn a_password_that_is_not_escaped_is_in_no_message() {
        for password in ["hunter2/x", "/hunter2", "/x/hunter2/y", "hun#hunter2", "?hunter2", "a@hunter2/x"] {
            for host in ["host", "host/..", "host/../..", "host/0?db=1"] {
                let error = parse(&format!("redis://app:{password}@{host}")).unwrap_err();
                assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
            }
        }
    }

    #[test]
    fn unix_sockets_have_a_path() {
        let node = parse("redis+unix:///run/my%20redis.sock?db=2&user=app&password_file=/etc/pw").unwrap();
        assert_eq!(node.endpoint, Endpoint::Unix("/run/my redis.sock".into()));
        assert_eq!((node.database, node.user.as_deref()), (2, Some("app")));
        assert!(node.password == Some(Password::File("/etc/pw".into())));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn tls_can_have_its_own_files() {
        let node = parse("rediss://host?ca=/ca.pem&cert=/c.pem&key=/k.pem").unwrap();
        let client = Some(("/c.pem".into(), "/k.pem".into()));
        assert_eq!(node.tls, Some(TlsFiles { ca: Some("/ca.pem".into()), client }));
        assert_eq!(parse("rediss://host?cert=/c.pem").unwrap_err(), UrlError::HalfCertificate);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (url, expected) in [
            ("host:6379", "host:// is not supported"),
            ("", "invalid node URL"),
            ("http://u:geheim@host", "http:// is not supported"),
            ("redis://u:geheim@", "invalid node URL"),
            ("redis:///0", "has no host"),
            ("redis+unix://", "has no path"),
            ("redis+unix://run/redis.sock", "has no third slash"),
            ("redis://u:geheim@host/zero", "\"zero\" is not a database"),
            ("redis://u:geheim@host/0?ca=/x", "\"ca\" is not a parameter of redis:// URLs"),
            ("redis://u:geheim@host/0?color=red", "expected db, user, password_file"),
            ("redis://u:geheim@host:99999", "invalid node URL"),
            ("redis://app:12/geheim@host:6379", "write #, /, ?, @"),
            ("redis://app:12?geheim@host:6379", "write #, /, ?, @"),
            ("redis://app:12#geheim@host:6379", "write #, /, ?, @"),
        ] {
            let message = parse(url).unwrap_err().to_string();
            assert!(message.contains(expected), "{url}: {message}");
            assert!(!message.contains("geheim"), "{message}");
        }
    }
}
