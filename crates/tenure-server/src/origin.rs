//! Who may speak to a service: programs, its own dashboard, and no other web page.
//!
//! A browser sends what a page asks for to any address, loopback among them. Three headers give it
//! away, and no page can choose them: `Origin`, which a browser adds to every request that can
//! change something; `Sec-Fetch-Site`, which it adds to all that a page asks for, such as a
//! picture; and `Host`, which names the page's own host when its name was made to point to this
//! machine. So the service is called by an address, by `localhost`, by a name in its certificate,
//! or by one that its settings name.
//!
//! The dashboard is a page, too. Its requests are `same-origin`: the browser says so, and of no
//! page that comes from another host or port. Whoever follows a link to it from elsewhere gets the
//! page, which is the same for everybody.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue};

use crate::problem::{Kind, Problem};
use crate::tls::Tls;
use crate::ui;

/// Where the page that asks is, as the browser judges it. No page can set it.
const SITE: &str = "sec-fetch-site";

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
    // HTTP/2 has it in the request itself, HTTP/1 may have it in both.
    let asked = request.uri().host();
    let mut named = headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or_default()).chain(asked);
    let first = named.next().unwrap_or_default();
    let is_ours = hosts.has(name(first)) && named.all(|other| name(other) == name(first));
    // HTTP/2 may have no `Host`: there the port is in the request itself.
    let asked = request.uri().authority().map_or(first, |authority| authority.as_str());
    let from_elsewhere = match headers.get(SITE) {
        // What a person typed into the address bar is from no page.
        Some(site) if site == "none" => headers.contains_key(ORIGIN),
        Some(_) if is_own_page(headers) => {
            headers.get_all(ORIGIN).iter().any(|origin| !is_origin_of(origin, asked))
        }
        Some(_) => !ui::is_visit(request),
        None => headers.contains_key(ORIGIN),
    };
    if from_elsewhere {
        return Some("web pages may not use this service");
    }
    (!is_ours).then_some(
        "call the service by its address, by localhost, by a name in its certificate or by one of its \
         `hosts`; other host names are refused to keep web pages out",
    )
}

/// Whether the browser says that a page of this very service made the request.
pub(crate) fn is_own_page(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SITE).iter();
    sites.next().is_some_and(|site| site == "same-origin") && sites.next().is_none()
}

/// Whether this is the origin of pages that are asked for at this host and port.
fn is_origin_of(origin: &HeaderValue, asked: &str) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    host.is_some_and(|host| host.eq_ignore_ascii_case(asked))
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
