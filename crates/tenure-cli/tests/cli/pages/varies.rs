//! What may differ from one run to the next, as the page says it does: everything else is compared
//! letter by letter.

use regex::Regex;

/// Each word for what varies, and what it stands for in the text.
const WORDS: &[(&str, &str)] = &[
    ("offsets", r"[+-]\d+\.\d ms\b"),
    ("durations", r"\b\d+(\.\d+)? (us|ms|s|min|h)\b( \d+ (s|min)\b)?"),
    ("times", r"\b\d\d:\d\d:\d\d\b"),
    ("dates", r"\b\d{4}-\d\d-\d\dT[0-9:.]+Z"),
    ("fences", r"\b1[78]\d{14}\b"),
    ("milliseconds", r"\b1[78]\d{11}\b"),
    ("processes", r"\b\d+@"),
    ("tokens", r"\b(tenure_|t\d\.)[A-Za-z0-9._-]+"),
    ("contenders", r"\b(ann|ben|cid|dot|eve|fay|gus|hal)\b"),
    ("versions", r"\b\d+\.\d+\.\d+\b"),
    ("columns", r" {2,}"),
    ("numbers", r"\b\d[\d,.]*\b"),
];

/// What varies in a block: `<!-- varies: durations, fences -->`.
pub(super) struct Varies(Vec<(&'static str, Regex)>);

impl Varies {
    pub(super) fn parse(remarks: &[&str]) -> Self {
        let lists = remarks.iter().filter_map(|remark| remark.strip_prefix("varies:"));
        let words: Vec<&str> = lists.flat_map(|list| list.split(',')).map(str::trim).collect();
        for word in &words {
            assert!(WORDS.iter().any(|(known, _)| known == word), "nothing varies that is called {word:?}");
        }
        // In the order above: an offset looks like a duration with a sign.
        let chosen = WORDS.iter().filter(|(known, _)| words.contains(known));
        Self(chosen.map(|(name, pattern)| (*name, Regex::new(pattern).unwrap())).collect())
    }

    /// The text with a name for whatever varies.
    fn plain(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, pattern)| {
            pattern.replace_all(&text, format!("<{name}>")).into_owned()
        })
    }
}

/// The first line that differs; none if all are alike. A line `...` on the page stands for any
/// number of lines.
pub(super) fn differences(varies: &Varies, page: &str, happened: &str) -> Option<String> {
    let plain =
        |text: &str| varies.plain(text).lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    let (wanted, got) = (plain(page), plain(happened));
    (!matches(&wanted, &got)).then(|| {
        let same = wanted.iter().zip(&got).take_while(|(wanted, got)| wanted == got).count();
        let line = |lines: &[String]| lines.get(same).map_or("(nothing)", String::as_str).to_owned();
        format!(
            "  the page says: {}\n  it says:       {}\n  all of it:\n{happened}",
            line(&wanted),
            line(&got)
        )
    })
}

fn matches(wanted: &[String], got: &[String]) -> bool {
    match wanted.split_first() {
        None => got.is_empty(),
        Some((dots, rest)) if dots == "..." => (0..=got.len()).any(|skipped| matches(rest, &got[skipped..])),
        Some((line, rest)) => {
            got.split_first().is_some_and(|(first, left)| first == line && matches(rest, left))
        }
    }
}

#[test]
fn what_varies_may_differ_and_nothing_else() {
    let varies = Varies::parse(&["varies: durations, processes", "other"]);
    let page = "held by 6367@vm, free in 32.1 s\nexit 75\n";
    assert_eq!(differences(&varies, page, "held by 1@vm, free in 7 ms\nexit 75\n"), None);
    for other in [
        "held by 1@vm, free in 7 ms\nexit 64\n",
        "held by 1@vm, free in 7 ms\n",
        "free\nexit 75\n",
        "held by 1@vm, free in 7 ms\nexit 75\nmore\n",
    ] {
        assert!(differences(&varies, page, other).is_some(), "{other}");
    }
    assert!(differences(&Varies::parse(&[]), "in 1 s\n", "in 2 s\n").is_some(), "unless the page says so");
}

#[test]
fn the_sign_of_an_offset_is_a_part_of_it() {
    let varies = Varies::parse(&["varies: durations, offsets"]);
    assert_eq!(differences(&varies, "clock -0.7 ms\n", "clock +12.0 ms\n"), None);
}

#[test]
fn dots_stand_for_lines() {
    let varies = Varies::parse(&[]);
    assert_eq!(differences(&varies, "a\n...\nz\n", "a\nb\nc\nz\n"), None);
    assert_eq!(differences(&varies, "a\n...\nz\n", "a\nz\n"), None);
    assert!(differences(&varies, "a\n...\nz\n", "a\nb\n").is_some());
}
