//! A Markdown page, as far as the checks look at it: headings, links, code spans and code blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A page and what is in it.
pub(super) struct Page {
    /// From the root of the project.
    pub(super) file: PathBuf,
    /// What links to its headings end with.
    pub(super) anchors: BTreeSet<String>,
    pub(super) links: Vec<Link>,
    /// Code within text, such as the name of a file.
    pub(super) spans: Vec<Link>,
    pub(super) blocks: Vec<Block>,
    /// The first two things on it: lines that are not empty.
    pub(super) opening: [String; 2],
}

/// Where something leads, or its text, and the line it is in.
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

/// A code block.
pub(super) struct Block {
    pub(super) line: usize,
    /// What follows the fence: its language and more.
    pub(super) info: String,
    /// The comments right before it.
    pub(super) remarks: Vec<String>,
    pub(super) lines: Vec<String>,
}

impl Page {
    pub(super) fn read(file: PathBuf) -> Result<Self> {
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        Ok(Self::parse(file, &text))
    }

    pub(super) fn parse(file: PathBuf, text: &str) -> Self {
        let (prose, blocks) = split(text);
        let (spans, without_code) = take_spans(&prose);
        let mut lines = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned);
        Self {
            file,
            anchors: anchors(&prose),
            links: links(&without_code),
            spans,
            blocks,
            opening: std::array::from_fn(|_| lines.next().unwrap_or_default()),
        }
    }

    pub(super) fn is_in_the_book(&self) -> bool {
        self.file.starts_with("docs")
    }

    /// Whether it tells what was, and so may name what is no more.
    pub(super) fn is_history(&self) -> bool {
        self.file == Path::new("CHANGELOG.md") || self.file.starts_with("docs/decisions")
    }

    pub(super) fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.file.display())
    }
}

/// The text with code blocks blanked, so that lines keep their numbers; and those blocks.
fn split(text: &str) -> (String, Vec<Block>) {
    let (mut prose, mut blocks) = (String::new(), vec![]);
    let mut remarks: Vec<String> = vec![];
    let mut open: Option<(String, Block)> = None;
    for (line, number) in text.lines().zip(1..) {
        let trimmed = line.trim_start();
        match open.take() {
            Some((fence, block)) if trimmed.trim_end() == fence => blocks.push(block),
            Some((fence, mut block)) => {
                let indent = line.len() - trimmed.len();
                block.lines.push(line[indent.min(block_indent(&block))..].to_owned());
                open = Some((fence, block));
            }
            // With a backtick behind it, it is code within text.
            None if trimmed.starts_with("```") && !trimmed.trim_start_matches('`').contains('`') => {
                let info = trimmed.trim_start_matches('`');
                let fence = trimmed[..trimmed.len() - info.len()].to_owned();
                let block = Block {
                    line: number,
                    info: info.trim().to_owned(),
                    remarks: std::mem::take(&mut remarks),
                    lines: vec![],
                };
                open = Some((fence, block));
            }
            None => {
                let remark = trimmed.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"));
                match remark {
                    Some(remark) => remarks.push(remark.trim().to_owned()),
                    None if trimmed.is_empty() => {}
                    None => remarks.clear(),
                }
                prose.push_str(line);
            }
        }
        prose.push('\n');
    }
    blocks.extend(open.map(|(_, block)| block));
    (prose, blocks)
}

/// Blocks in lists are indented as their list is.
fn block_indent(block: &Block) -> usize {
    block.lines.first().map_or(usize::MAX, |first| first.len() - first.trim_start().len())
}

/// Code within text, and the text without it. A span may go on in the next line, not in the next
/// paragraph.
fn take_spans(prose: &str) -> (Vec<Link>, String) {
    let (mut spans, mut rest, mut line) = (vec![], String::new(), 1);
    let mut left = prose;
    while let Some(start) = left.find('`') {
        let (before, from) = left.split_at(start);
        line += before.matches('\n').count();
        rest.push_str(before);
        let ticks = from.len() - from.trim_start_matches('`').len();
        let (fence, inside) = from.split_at(ticks);
        let end = inside.find(fence).filter(|end| !inside[..*end].contains("\n\n"));
        let Some(end) = end else {
            rest.push_str(fence);
            left = inside;
            continue;
        };
        let target = inside[..end].split_whitespace().collect::<Vec<_>>().join(" ");
        spans.push(Link { line, target });
        let breaks = inside[..end].matches('\n').count();
        line += breaks;
        rest.push_str(&"\n".repeat(breaks));
        left = &inside[end + ticks..];
    }
    rest.push_str(left);
    (spans, rest)
}

/// Targets of links and pictures, in Markdown and in HTML.
fn links(text: &str) -> Vec<Link> {
    let mut links = vec![];
    for (opening, closing) in [("](", ')'), ("href=\"", '"'), ("src=\"", '"'), ("srcset=\"", '"')] {
        for (start, _) in text.match_indices(opening) {
            let line = 1 + text[..start].matches('\n').count();
            let rest = &text[start + opening.len()..];
            let target = rest.split(closing).next().unwrap_or_default();
            // After the target a title may follow.
            let target = target.split_whitespace().next().unwrap_or_default().to_owned();
            links.push(Link { line, target });
        }
    }
    for (line, number) in text.lines().zip(1..) {
        let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        if let Some((_, target)) = definition {
            links.push(Link { line: number, target: target.trim().to_owned() });
        }
    }
    links
}

fn anchors(prose: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for line in prose.lines() {
        let Some(heading) = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#')) else {
            if let Some((_, rest)) = line.split_once("<a id=\"") {
                anchors.extend(rest.split('"').next().map(str::to_owned));
            }
            continue;
        };
        if !heading.starts_with(' ') {
            continue;
        }
        let name = anchor(heading);
        let again = seen.entry(name.clone()).or_default();
        anchors.insert(if *again == 0 { name } else { format!("{name}-{again}") });
        *again += 1;
    }
    anchors
}

/// A heading as forges and the book both turn it into an anchor.
fn anchor(heading: &str) -> String {
    // Of a link its text alone is seen.
    let mut text = String::new();
    for (part, number) in heading.trim().split("](").zip(0..) {
        text.push_str(if number == 0 { part } else { part.split_once(')').map_or(part, |(_, rest)| rest) });
    }
    let keep = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    };
    text.to_lowercase().chars().filter_map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page::parse("docs/page.md".into(), text)
    }

    #[test]
    fn headings_become_anchors_as_forges_make_them() {
        let page = page("# The `run` command: what, and why?\n## [Twice](x.md)\n## Twice\n#no heading\n");
        let anchors: Vec<&str> = page.anchors.iter().map(String::as_str).collect();
        assert_eq!(anchors, ["the-run-command-what-and-why", "twice", "twice-1"]);
    }

    #[test]
    fn links_are_found_in_text_and_not_in_code() {
        let page = page(
            "See [a](a.md#b \"title\")\nand `[no](no.md)`, <img src=\"c.svg\">\n```\n[no](no.md)\n```\n[r]: d.md\n",
        );
        let found: Vec<_> = page.links.iter().map(|link| (link.line, link.target.as_str())).collect();
        assert_eq!(found, [(1, "a.md#b"), (2, "c.svg"), (6, "d.md")]);
    }

    #[test]
    fn a_span_goes_on_in_the_next_line_and_not_in_the_next_paragraph() {
        let page = page("Run `cargo\ntest` now. A ` alone\n\nand `docs/x.md`.\n");
        let found: Vec<_> = page.spans.iter().map(|span| (span.line, span.target.as_str())).collect();
        assert_eq!(found, [(1, "cargo test"), (4, "docs/x.md")]);
    }

    #[test]
    fn a_block_knows_its_language_its_remarks_and_its_lines() {
        let page = page(
            "<!-- gone -->\ntext\n<!-- varies: fences -->\n\n```console,sketch\n$ a\n  b\n```\n```\n# no heading\n```\n",
        );
        let [first, second] = page.blocks.as_slice() else { panic!("two blocks") };
        assert_eq!((first.line, first.info.as_str()), (5, "console,sketch"));
        assert_eq!(
            (first.remarks.as_slice(), first.lines.as_slice()),
            (&["varies: fences".to_owned()][..], &["$ a".to_owned(), "  b".to_owned()][..])
        );
        assert!(second.remarks.is_empty() && page.anchors.is_empty());
    }
}
