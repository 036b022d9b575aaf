//! The console blocks of a page: commands, and what the page says they print.

use super::varies::Varies;

/// A page and its blocks that are to be run.
pub(super) struct Page<'a> {
    text: &'a str,
    pub(super) blocks: Vec<Block>,
}

/// A block.
pub(super) struct Block {
    pub(super) varies: Varies,
    /// What is done before it and not shown: `<!-- setup: COMMAND -->`.
    pub(super) setup: Vec<String>,
    pub(super) steps: Vec<Step>,
    /// Its lines, from the one after the opening fence to the one before the closing.
    lines: std::ops::Range<usize>,
}

/// A command and what it prints.
#[derive(Debug, PartialEq)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) command: String,
    /// The command as the page has it, with its `$ ` and its lines.
    shown: String,
    pub(super) output: String,
}

impl<'a> Page<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        let (mut blocks, mut remarks) = (vec![], vec![]);
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            if let Some(remark) = remark(line) {
                remarks.push(remark);
            } else if line.starts_with("```") {
                let inside: Vec<&str> = lines
                    .by_ref()
                    .map(|(_, line)| line)
                    .take_while(|line| !line.starts_with("```"))
                    .collect();
                if let Some(file) = remarks.iter().find_map(|remark| remark.strip_prefix("file: ")) {
                    blocks.push(Block::saved(file, &inside, number + 1));
                }
                // What `cargo test` runs is run anyway.
                let is_elsewhere = remarks.iter().any(|remark| remark.starts_with("run by "))
                    || inside
                        .iter()
                        .filter(|line| line.starts_with("$ "))
                        .all(|line| line.starts_with("$ cargo test "));
                if line == "```console" && !is_elsewhere {
                    let first = number + 1;
                    blocks.push(Block {
                        varies: Varies::parse(&remarks),
                        setup: remarks
                            .iter()
                            .filter_map(|remark| remark.strip_prefix("setup: "))
                            .map(str::to_owned)
                            .collect(),
                        steps: steps(&inside, first + 1),
                        lines: first..first + inside.len(),
                    });
                }
                remarks.clear();
            } else if !line.is_empty() {
                remarks.clear();
            }
        }
        Self { text, blocks }
    }

    /// What a remark anywhere on the page lists: `<!-- ports: 7001 7002 -->`.
    pub(super) fn settings(&self, name: &str) -> Vec<&'a str> {
        let lists = self.text.lines().filter_map(remark).filter_map(|remark| remark.split_once(':'));
        lists.filter(|(key, _)| *key == name).flat_map(|(_, list)| list.split_whitespace()).collect()
    }

    /// The page with other blocks.
    pub(super) fn rewritten(&self, text: &str, blocks: &[String]) -> String {
        let (mut rewritten, mut next) = (String::new(), 0);
        let lines: Vec<&str> = text.lines().collect();
        let copy = |rewritten: &mut String, range: std::ops::Range<usize>| {
            for line in &lines[range] {
                rewritten.push_str(line);
                rewritten.push('\n');
            }
        };
        for (block, new) in self.blocks.iter().zip(blocks) {
            copy(&mut rewritten, next..block.lines.start);
            rewritten.push_str(new);
            next = block.lines.end;
        }
        copy(&mut rewritten, next..lines.len());
        rewritten
    }
}

impl Block {
    /// A block that the reader saves as a file: `<!-- file: NAME -->`.
    fn saved(file: &str, inside: &[&str], first: usize) -> Self {
        let save = format!("cat > {file} <<'END OF FILE'\n{}\nEND OF FILE", inside.join("\n"));
        Self { varies: Varies::parse(&[]), setup: vec![save], steps: vec![], lines: first..first }
    }
}

impl Step {
    /// The step with this output, as a page has it.
    pub(super) fn with(&self, output: &str) -> String {
        format!("{}{output}", self.shown)
    }
}

fn remark(line: &str) -> Option<&str> {
    line.trim().strip_prefix("<!--")?.strip_suffix("-->").map(str::trim)
}

/// Commands begin with `$ `, and go on after a backslash, or with `> ` in front.
fn steps(lines: &[&str], first: usize) -> Vec<Step> {
    let mut steps: Vec<Step> = vec![];
    let mut goes_on = false;
    for (line, number) in lines.iter().zip(first..) {
        let begins = line.strip_prefix("$ ").filter(|_| !goes_on);
        let last = steps.last_mut();
        match (begins, last) {
            (Some(command), _) => {
                let shown = format!("{line}\n");
                steps.push(Step { line: number, command: command.to_owned(), shown, output: String::new() });
                goes_on = line.ends_with('\\');
            }
            (None, None) => panic!("line {number}: a block begins with a command"),
            (None, Some(step)) if goes_on || (step.output.is_empty() && line.starts_with("> ")) => {
                step.command.push('\n');
                step.command.push_str(line.strip_prefix("> ").unwrap_or(line));
                step.shown.push_str(&format!("{line}\n"));
                goes_on = line.ends_with('\\');
            }
            (None, Some(step)) => step.output.push_str(&format!("{line}\n")),
        }
    }
    steps
}

#[test]
fn a_block_that_is_saved_as_a_file_stays_as_it_is() {
    let text = "<!-- file: job.sh -->\n```sh\n$ no command\necho x\n```\n```console\n$ sh job.sh\nx\n```\n";
    let page = Page::parse(text);
    let [file, block] = page.blocks.as_slice() else { panic!("two blocks") };
    assert_eq!(file.setup, ["cat > job.sh <<'END OF FILE'\n$ no command\necho x\nEND OF FILE"]);
    assert!(file.steps.is_empty() && block.steps[0].command == "sh job.sh");
    let same: String = block.steps.iter().map(|step| step.with(&step.output)).collect();
    assert_eq!(page.rewritten(text, &[String::new(), same]), text);
}

#[test]
fn a_page_is_taken_apart_and_put_together_again() {
    let text = "<!-- ports: 1 2 -->\n```console\n$ a \\\n  b\nout\n$ cat <<E\n> x\n> E\nx\n```\n```console,sketch\n$ no\n```\nend\n";
    let page = Page::parse(text);
    let [block] = page.blocks.as_slice() else { panic!("one block is run") };
    let commands: Vec<&str> = block.steps.iter().map(|step| step.command.as_str()).collect();
    assert_eq!(commands, ["a \\\n  b", "cat <<E\nx\nE"]);
    assert_eq!(block.steps.iter().map(|step| step.line).collect::<Vec<_>>(), [3, 6]);
    assert_eq!(page.settings("ports"), ["1", "2"]);
    let same: String = block.steps.iter().map(|step| step.with(&step.output)).collect();
    assert_eq!(page.rewritten(text, &[same]), text);
    let other: String = block.steps.iter().map(|step| step.with("new\n")).collect();
    assert_eq!(
        page.rewritten(text, &[other]),
        text.replace("\nout\n", "\nnew\n").replace("E\nx\n```", "E\nnew\n```")
    );
}
