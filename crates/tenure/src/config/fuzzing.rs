//! The fuzz targets for what people write: node URLs and `tenure.toml`.

use std::path::Path;

use super::file::File;
use super::files::ConfigFiles;
use super::{Config, Flags, NodeUrl, Source, node_url};
use crate::node::Node;

/// Stands for a password that nobody must see.
const SECRET: &str = "hunter2hunter2";

/// Reads the text as a node's URL, and again as what surrounds a password in one.
///
/// # Panics
/// If a password can be seen, or a URL is misread.
pub fn url(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(node) = Node::parse(&text)
        && node.address().contains("://")
        && !node.address().starts_with("redis+unix")
    {
        let again = Node::parse(node.address()).expect("an address is a URL");
        assert_eq!(again.address(), node.address());
        assert_eq!(again.identity(), node.identity());
    }
    let masked = NodeUrl::new(&*text).masked();
    assert_eq!(NodeUrl::new(&*masked).masked(), masked, "masked once is masked");
    let _ = node_url::list(&text, "TENURE_NODES");
    let mut parts = text.split('\n');
    let mut part = || parts.next().unwrap_or_default();
    let (before, behind, host) = (part(), part(), part());
    // The fuzzer finds the word, and puts it where no password is: also with characters that URLs
    // leave out or escape.
    let plain: String = text.chars().filter(|character| !character.is_control()).collect();
    let plain = percent_encoding::percent_decode_str(&plain).decode_utf8_lossy();
    if plain.contains(SECRET) {
        return;
    }
    for scheme in ["redis", "rediss", "redis+unix", "http"] {
        is_hidden(&format!("{scheme}://app:{before}{SECRET}{behind}@{host}"));
        is_hidden(&format!("{scheme}://{host}?{before}&password={SECRET}&{behind}"));
    }
}

fn is_hidden(url: &str) {
    let shown = [
        NodeUrl::new(url).to_string(),
        format!("{:?}", NodeUrl::new(url)),
        Node::parse(url).map_or_else(|error| format!("{error} {error:?}"), |node| format!("{node:?}")),
    ];
    for shown in shown {
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

/// Reads the text as a `tenure.toml`.
///
/// # Panics
/// If a setting names a line that is not there.
pub fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let path = Path::new("/nowhere/tenure.toml");
    let Ok(file) = File::of_text(path, text.clone().into_owned()) else { return };
    let files = ConfigFiles::of(file);
    let Ok(config) = Config::of_files(&Flags::default(), None, &files, vec![]) else { return };
    let _ = config.check();
    let _ = config.builder();
    let lines = text.lines().count();
    let sources = [
        &config.nodes.source,
        &config.prefix.source,
        &config.ttl.source,
        &config.wait.source,
        &config.known_nodes.source,
        &config.serve.listen.source,
        &config.serve.hosts.source,
    ];
    for source in sources {
        if let Source::File { line, .. } = source {
            assert!((1..=lines).contains(line), "line {line} of {lines}");
        }
    }
    assert!(config.nodes.value.iter().all(|url| !url.as_str().is_empty() || config.check().is_err()));
}
