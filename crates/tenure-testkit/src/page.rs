//! What a page of the documentation shows, for tests that run it.

/// The blocks of a page that are marked with this language, in order.
///
/// # Panics
/// If there is none, or one of them has no end.
#[must_use]
pub fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("\n```{language}\n");
    let blocks = page.split(begin.as_str()).skip(1);
    let blocks: Vec<&str> =
        blocks.map(|rest| rest.split_once("\n```").expect("a block has an end").0).collect();
    assert!(!blocks.is_empty(), "the page has no {language} block");
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_told_apart_by_their_language() {
        let page = "Text.\n\n```sql\nA;\nB;\n```\n\n```text\nno\n```\n```sql\nC;\n```\n";
        assert_eq!(blocks(page, "sql"), ["A;\nB;", "C;"]);
        assert_eq!(blocks(page, "text"), ["no"]);
    }
}
