//! Who may speak to a service on this machine: programs, and no web page.
//!
//! A browser sends what a page asks for to any address, loopback among them. Two headers give it
//! away, and no page can choose them: `Origin`, which a browser adds to every request that can
//! change something, and `Host`, which names the page's own host when its name was made to point to
//! this machine.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::{Kind, Problem};

/// Refuses what a web page may have asked for.
pub(crate) async fn check(request: Request, next: Next) -> Response {
    match refusal(request.headers()) {
        Some(reason) => Problem::new(Kind::WebPage, reason).into_response(),
        None => next.run(request).await,
    }
}

fn refusal(headers: &HeaderMap) -> Option<&'static str> {
    if headers.contains_key(ORIGIN) {
        return Some("web pages may not use this service");
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    (!is_address(host)).then_some(
        "use the service by its address, such as 127.0.0.1, or by localhost: other names may be a web page's",
    )
}

/// Whether it names this machine by itself: an address, or `localhost`, and perhaps a port. No name
/// system can make these point elsewhere.
fn is_address(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_names() {
        for host in ["127.0.0.1", "127.0.0.1:7420", "localhost", "LOCALHOST:7420", "[::1]", "[::1]:7420"] {
            assert!(is_address(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:7420",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[evil]:1",
        ] {
            assert!(!is_address(host), "{host}");
        }
    }
}
