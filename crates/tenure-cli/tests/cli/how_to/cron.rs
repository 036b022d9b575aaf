//! The line of a crontab in `docs/how-to/cron.md`, on three machines at once.

use super::page::{Page, with_tool_on_path};
use crate::deployment::{Background, embedded_store};

/// Three machines start the job at the same time, and then once more: it ran once, all of them
/// ended with 0, and cron has nothing to send.
#[test]
fn the_line_of_the_crontab_runs_the_job_once() {
    let page = Page::open("docs/how-to/cron.md");
    let line = page.block("cron");
    let command = line.splitn(6, char::is_whitespace).last().unwrap().trim();
    assert!(line.starts_with("* * * * * ") && command.starts_with("tenure run report "), "{line}");
    let deployment = embedded_store();
    deployment.write("job.sh", "echo ran >> runs\n");
    let command = command.replace("./report.sh", "sh ./job.sh");
    let machine = || {
        let mut shell = deployment.program("sh");
        shell.args(["-c", &command]);
        with_tool_on_path(&mut shell);
        Background::start(shell)
    };
    for _ in 0..2 {
        for machine in [machine(), machine(), machine()] {
            let done = machine.done();
            done.ends_with(0);
            assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""));
        }
    }
    assert_eq!(std::fs::read_to_string(deployment.folder().join("runs")).unwrap(), "ran\n");
}

/// Its settings are settings, and say what the page says of them.
#[test]
fn the_settings_for_cron_name_nodes_and_insist_on_them() {
    let (page, deployment) = (Page::open("docs/how-to/cron.md"), embedded_store());
    deployment.write("tenure.toml", page.block("toml"));
    let mut command = deployment.command_without_nodes(&["config", "--json"]);
    let done = crate::deployment::Done::of(command.output().unwrap());
    let shown: serde_json::Value = serde_json::from_str(&done.ends_with(0).stdout).unwrap();
    assert_eq!(shown["nodes"]["value"].as_array().unwrap().len(), 3, "{shown}");
    assert_eq!(shown["require_nodes"]["value"], true, "{shown}");
}
