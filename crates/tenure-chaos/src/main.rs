//! The chaos campaign as a program; `cargo xtask chaos` runs it. `docs/explanation/chaos.md` has
//! the words.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_chaos::{Kind, Options, Outcome, run};

const HELP: &str = "\
Real servers and client processes, everything goes wrong, and a checker looks at what they did.

Usage: cargo xtask chaos [OPTIONS]

Options:
  --seed S            what goes wrong and when; by default another one each time
  --minutes M         how long it goes wrong (default 1)
  --seconds N         the same in seconds
  --unguarded         with restart_guard = off: exclusion breaks, fences must not
  --rolling           a node is killed and started empty every 0.4 s, holds last 1.5 s of a ttl of 2 s
  --rolling-durable   the same with appendfsync always, and started with its data
  --every MS          the time from node to node in the last two, instead of 400
  --clients N         how many client processes (default 7)
  --locks N           how many locks (default 5)
  --picture FILE.svg  a picture of it
  --from S            the picture begins at this second (default: around the first violation, or where most
                      happened)
  --window S          the picture shows so many seconds (default 60)
  --history FILE      all that happened, as text: what clients said, their runs, the faults
  --help              this text

It fails if a promise was broken or a client ended by itself; with --unguarded, if none was, or if one about fences was.
";

/// What was typed.
struct Wishes {
    options: Options,
    picture: Option<String>,
    from_s: Option<u64>,
    window_s: u64,
    history: Option<String>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let wishes = match read(&arguments) {
        Ok(wishes) => wishes,
        Err(complaint) => {
            eprintln!("{complaint}\n\n{HELP}");
            return ExitCode::FAILURE;
        }
    };
    println!("seed {}", wishes.options.seed);
    let outcome = run(&wishes.options);
    print!("{outcome}");
    if let Err(error) = keep(&wishes, &outcome) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    if is_as_expected(&outcome) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(arguments: &[String]) -> Result<Wishes, String> {
    let mut wishes =
        Wishes { options: Options::default(), picture: None, from_s: None, window_s: 60, history: None };
    let options = &mut wishes.options;
    options.seed = some_seed();
    options.contender =
        std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("contender");
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut text = || words.next().cloned().ok_or(format!("{word} needs something after it"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text:?} is no number"));
        let size = |text: String| text.parse::<usize>().map_err(|_| format!("{text:?} is no number"));
        match word.as_str() {
            "--seed" => options.seed = number(text()?)?,
            "--minutes" => options.duration = Duration::from_secs(60 * number(text()?)?),
            "--seconds" => options.duration = Duration::from_secs(number(text()?)?),
            "--unguarded" => options.guarded = false,
            "--rolling" => roll(options, Kind::Rolling),
            "--rolling-durable" => roll(options, Kind::RollingDurable),
            "--every" => options.every = Duration::from_millis(number(text()?)?),
            "--clients" => options.clients = size(text()?)?.max(1),
            "--locks" => options.locks = size(text()?)?.max(1),
            "--picture" => wishes.picture = Some(text()?),
            "--from" => wishes.from_s = Some(number(text()?)?),
            "--window" => wishes.window_s = number(text()?)?,
            "--history" => wishes.history = Some(text()?),
            other => return Err(format!("{other:?} is no option")),
        }
    }
    Ok(wishes)
}

fn roll(options: &mut Options, kind: Kind) {
    options.kind = kind;
    options.max_ttl = Duration::from_secs(2);
}

fn some_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(since.subsec_micros())
}

fn keep(wishes: &Wishes, outcome: &Outcome) -> std::io::Result<()> {
    if let Some(file) = &wishes.picture {
        std::fs::write(file, outcome.picture(wishes.from_s, wishes.window_s))?;
    }
    if let Some(file) = &wishes.history {
        std::fs::write(file, outcome.history_text())?;
    }
    Ok(())
}

fn is_as_expected(outcome: &Outcome) -> bool {
    let heals = outcome.healed_after().is_some() && outcome.died() == 0;
    if outcome.options.guarded {
        heals && outcome.violations.is_empty()
    } else {
        heals && outcome.overlaps() > 0 && outcome.fence_violations() == 0
    }
}
