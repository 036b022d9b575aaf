//! The cases as a program; `cargo xtask interop` builds what it needs and runs it.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::process::ExitCode;

use tenure_interop::{Installed, Options, PEERS, run};

const HELP: &str = "\
Tenure and other lock libraries on the same nodes, the same cases with each.

Usage: cargo xtask interop [OPTIONS]

Options:
  --peer NAME    this peer alone (may be given more than once); `together` is all with a string key at once
  --case PART    the cases with this in their name alone
  --quick        the short form, which is part of `cargo xtask test`
  --require all  fail if a peer cannot be run here
  --json         the results as JSON; progress goes to standard error
  --list         the peers, their versions, and whether they are here
  --help         this text

Ruby and PHP peers are looked for in the folder that TENURE_PEERS names.
";

#[derive(Default)]
struct Wishes {
    options: Options,
    requires_all: bool,
    json: bool,
    list: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match read(&arguments).and_then(|wishes| installed().map(|installed| (wishes, installed))) {
        Ok((wishes, installed)) if wishes.list => list(&installed),
        Ok((wishes, installed)) => play(&wishes, &installed),
        Err(complaint) => {
            eprintln!("{complaint}\n\n{HELP}");
            ExitCode::FAILURE
        }
    }
}

fn play(wishes: &Wishes, installed: &Installed) -> ExitCode {
    let mut done = 0;
    let report = run(installed, &wishes.options, &mut |line| {
        done += 1;
        eprintln!("[{done}] {line}");
    });
    if wishes.json {
        println!("{:#}", report.json());
    } else {
        print!("\n{report}");
    }
    let is_missing = wishes.requires_all && !report.not_run.is_empty();
    if report.passed() && !is_missing { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn list(installed: &Installed) -> ExitCode {
    for peer in PEERS {
        let state =
            installed.check(peer).map_or_else(|why| format!("not here: {why}"), |()| "here".to_owned());
        println!("{} {} ({}), nodes {:?}: {state}", peer.name, peer.version, peer.id, peer.nodes);
    }
    ExitCode::SUCCESS
}

fn read(arguments: &[String]) -> Result<Wishes, String> {
    let mut wishes = Wishes::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut text = || words.next().cloned().ok_or(format!("{word} needs something after it"));
        match word.as_str() {
            "--peer" => {
                let name = text()?;
                if name != "together" && !PEERS.iter().any(|peer| peer.name == name) {
                    let names: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
                    return Err(format!("unknown peer {name:?}; expected {} or together", names.join(", ")));
                }
                wishes.options.peers.push(name);
            }
            "--case" => wishes.options.cases.push(text()?),
            "--quick" => wishes.options.quick = true,
            "--require" => match text()?.as_str() {
                "all" => wishes.requires_all = true,
                other => return Err(format!("--require {other:?}; expected all")),
            },
            "--json" => wishes.json = true,
            "--list" => wishes.list = true,
            other => return Err(format!("unknown option {other:?}")),
        }
    }
    Ok(wishes)
}

fn installed() -> Result<Installed, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let ours = program.with_file_name("tenure-driver");
    Ok(Installed::beside(&program, ours))
}
