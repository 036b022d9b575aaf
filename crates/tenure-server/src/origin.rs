//! Who may speak to a service: programs, and no web page.
//!
//! A browser sends what a page asks for to any address, loopback among them. Three headers give it
//! away, and no page can choose them: `Origin`, which a browser adds to every request that can
//! change something; `Sec-Fetch-Site`, which it adds to all that a page asks for, such as a
//! picture; and `Host`, which names the page's own host when its name was made to point to this
//! machine. So the service is called by an address, by `localhost`, by a name in its certificate,
//! or by one that its settings name.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};

use crate::problem::{Kind, Problem};
use crate::tls::Tls;

/// The names of the service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    pub(crate) named: Arc<[String]>,
    pub(crate) tls: Option<Tls>,
}

/// Refuses what a web page may have asked for.
pub(crate) fn check(hosts: &Hosts, request: &Request) -> Result<(), Problem> {
    refusal(hosts, request).map_or(Ok(()), |reason| Err(Problem::new(Kind::WebPage, reason)))
}

fn refusal(hosts: &Hosts, request: &Request) -> Option<&'static str> {
    let headers = request.headers();
    // What a person typed into the address bar is from no page.
    let from_page = headers.get("sec-fetch-site").is_some_and(|site| site != "none");
    if from_page || headers.contains_key(ORIGIN) {
        return Some("web pages may not use this service");
    }
    // HTTP/2 has it in the request itself, HTTP/1 may have it in both.
    let asked = request.uri().host();
    let mut named = headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or_default()).chain(asked);
    let first = named.next().unwrap_or_default();
    let is_ours = hosts.has(name(first)) && named.all(|other| name(other) == name(first));
    (!is_ours).then_some(
        "use the service by its address, by localhost, by a name in its certificate or one of its `hosts`: other names may \
         be a web page's",
    )
}

impl Hosts {
    /// Whether this is a name of the service. No name system can make an address or `localhost`
    /// point elsewhere.
    fn has(&self, host: &str) -> bool {
        host.eq_ignore_ascii_case("localhost")
            || host.parse::<IpAddr>().is_ok()
            || self.named.iter().any(|name| name.eq_ignore_ascii_case(host))
            || self.tls.as_ref().is_some_and(|tls| tls.is_named(host))
    }
}

/// The host without its port.
fn name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_service_are_told_from_others() {
        let hosts = Hosts { named: ["locks.example".to_owned()].into(), tls: None };
        for host in [
            "127.0.0.1",
            "127.0.0.1:7420",
            "localhost",
            "LOCALHOST:7420",
            "[::1]",
            "[::1]:7420",
            "Locks.example:443",
        ] {
            assert!(hosts.has(name(host)), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:7420",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[evil]:1",
            "x.locks.example",
            "locks.example.evil",
        ] {
            assert!(!hosts.has(name(host)), "{host}");
        }
    }
}
