//! The dashboard: the files of `ui/`, built into the binary and served under `/ui/`.
//!
//! They are the same for everybody and hold no data, so they need no caller; what the page shows it
//! asks the public calls for, like any client. Pages of the dashboard have paths of their own
//! (`/ui/locks`), and each of them is the same document: the script in it looks at the path.

mod asset;
mod policy;

use axum::Router;
use axum::extract::{Path, Request};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, VARY};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use self::asset::Asset;
use self::policy::POLICY;
use crate::calls;

/// The addresses that show the document; any other shows it, too, as a page that is not there.
const PAGES: [&str; 5] = ["", "locks", "lock", "nodes", "events"];

/// Where the dashboard is.
const HOME: &str = "/ui/";

/// Says whether a path is the dashboard's: it needs no caller.
pub(crate) fn is_at(path: &str) -> bool {
    path == "/" || path == "/ui" || path.starts_with(HOME)
}

/// Says whether this is a person who follows a link to a page of the dashboard, from wherever.
pub(crate) fn is_visit(request: &Request) -> bool {
    let has = |name: &str, value: &str| request.headers().get(name).is_some_and(|sent| sent == value);
    let path = request.uri().path();
    is_at(path)
        && asset::find(path.strip_prefix(HOME).unwrap_or_default()).is_none()
        && request.method() == Method::GET
        && has("sec-fetch-mode", "navigate")
        && has("sec-fetch-dest", "document")
}

pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let page = |headers: HeaderMap| async move { file(&headers, "") };
    Router::new()
        .route("/", get(home))
        .route("/ui", get(home))
        .route(HOME, get(page))
        .route("/ui/{*path}", get(async |Path(path): Path<String>, headers: HeaderMap| file(&headers, &path)))
}

/// Sends people to the dashboard. A program that asks for `/` is lost, and hears that.
async fn home(headers: HeaderMap, uri: Uri) -> Response {
    let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/html") {
        return (StatusCode::SEE_OTHER, [(LOCATION, HOME), (VARY, "Accept")]).into_response();
    }
    calls::no_such_call(uri).await.into_response()
}

/// One file, or the document for whatever is none.
fn file(headers: &HeaderMap, path: &str) -> Response {
    let found = asset::find(path);
    let status = match found {
        Some(_) => StatusCode::OK,
        None if PAGES.contains(&path) => StatusCode::OK,
        None => StatusCode::NOT_FOUND,
    };
    let asset = found.unwrap_or_else(asset::document);
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
    let is_known = known.flat_map(|tags| tags.split(',')).any(|tag| tag.trim() == asset.etag);
    if is_known && status == StatusCode::OK {
        return (StatusCode::NOT_MODIFIED, guarded(asset)).into_response();
    }
    (status, guarded(asset), asset.bytes).into_response()
}

/// The headers of every file. It is asked for again each time, and sent again only if it changed.
fn guarded(asset: &'static Asset) -> [(HeaderName, &'static str); 7] {
    [
        (CONTENT_TYPE, asset.kind),
        (ETAG, asset.etag.as_str()),
        (CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("content-security-policy"), POLICY.as_str()),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ]
}
