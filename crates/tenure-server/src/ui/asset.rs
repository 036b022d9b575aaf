//! The files, as they are in `ui/`.

use std::sync::LazyLock;

use ring::digest::{SHA256, digest};

use crate::hex::hex;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";

/// The document that all pages are.
pub(super) const INDEX: &str = include_str!("../../ui/index.html");

/// A file that is served.
pub(super) struct Asset {
    /// Below `/ui/`.
    path: &'static str,
    pub(super) kind: &'static str,
    pub(super) bytes: &'static [u8],
    pub(super) etag: String,
}

/// The table: each file by the path it is served under, which is its path in `ui/`.
macro_rules! assets {
    ($($kind:ident $path:literal,)*) => {
        static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| vec![
            $(Asset::new($path, $kind, include_bytes!(concat!("../../ui/", $path))),)*
        ]);
    };
}

assets! {
    HTML "index.html",
    STYLE "app.css",
    IMAGE "icon.svg",
    SCRIPT "api.js",
    SCRIPT "app.js",
    SCRIPT "feed.js",
    SCRIPT "force.js",
    SCRIPT "health.js",
    SCRIPT "histogram.js",
    SCRIPT "html.js",
    SCRIPT "keys.js",
    SCRIPT "lanes.js",
    SCRIPT "list.js",
    SCRIPT "pages/events.js",
    SCRIPT "pages/lock.js",
    SCRIPT "pages/locks.js",
    SCRIPT "pages/login.js",
    SCRIPT "pages/nodes.js",
    SCRIPT "pages/overview.js",
    SCRIPT "parts.js",
    SCRIPT "progress.js",
    SCRIPT "route.js",
    SCRIPT "sse.js",
    SCRIPT "store.js",
    SCRIPT "strip.js",
    SCRIPT "text.js",
    SCRIPT "theme.js",
    SCRIPT "time.js",
    SCRIPT "timeline.js",
    SCRIPT "words.js",
    SCRIPT "vendor/htm.mjs",
    SCRIPT "vendor/hooks.mjs",
    SCRIPT "vendor/preact.mjs",
    SCRIPT "vendor/signals-core.mjs",
    SCRIPT "vendor/signals.mjs",
    TEXT "vendor/LICENSE-htm",
    TEXT "vendor/LICENSE-preact",
    TEXT "vendor/LICENSE-signals",
}

impl Asset {
    fn new(path: &'static str, kind: &'static str, bytes: &'static [u8]) -> Self {
        let mut hash = hex(digest(&SHA256, bytes).as_ref());
        hash.truncate(16);
        Self { path, kind, bytes, etag: format!("\"{hash}\"") }
    }
}

/// The file of this path.
pub(super) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

/// The document.
pub(super) fn document() -> &'static Asset {
    &ASSETS[0]
}
