//! `tenure demo`: five local nodes, eight contenders and the dashboard, and keys to break things.

use std::io::Read;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, interval, sleep_until};

use crate::args::DemoArgs;
#[cfg(feature = "top")]
use crate::demo::draw;
use crate::demo::{Do, HELP, Stage, meaning};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::Output;
#[cfg(feature = "top")]
use crate::output::{Screen, ScreenEvent};
use crate::signals::{Signals, ends_wait};
#[cfg(feature = "top")]
use crate::top::Key;

/// Countdowns are drawn so often.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// Runs on the main thread alone: what it starts ends with that thread.
pub(crate) fn run(args: &DemoArgs, output: &Output) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal(format!("cannot start: {error}")))?;
    runtime.block_on(show(args, output))
}

async fn show(args: &DemoArgs, output: &Output) -> Result<Exit, Failure> {
    let mut signals = Signals::install()?;
    let (tell, mut reports) = unbounded_channel();
    output.note("starting nodes and contenders");
    let mut stage = Stage::start(tell, !args.no_dashboard)?;
    let mut input = Input::open(args.seconds.is_some())
        .map_err(|error| Failure::internal(format!("cannot read keys: {error}")))?;
    let end = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut ticks = interval(DRAW_EVERY);
    let exit = loop {
        for happened in stage.news() {
            // Nobody reads any more.
            if input.is_lines() && output.demo_line(&happened).is_err() {
                return Ok(Exit::DONE);
            }
        }
        if input.draw(&stage).is_err() {
            break Exit::DONE;
        }
        tokio::select! {
            Some((who, round, said)) = reports.recv() => {
                stage.hear(who, round, &said);
                while let Ok((who, round, said)) = reports.try_recv() {
                    stage.hear(who, round, &said);
                }
            }
            nodes = stage.nodes_seen() => stage.look(&nodes),
            typed = input.next() => match typed {
                Typed::End | Typed::Key(Do::Quit) => break Exit::DONE,
                Typed::Key(Do::Help) if input.is_lines() => HELP.lines().for_each(|line| output.note(line)),
                Typed::Key(key) => stage.press(key)?,
                Typed::Nothing => {}
            },
            signal = signals.next() => if ends_wait(signal) {
                break Exit::signal(signal as i32);
            },
            () = async { match end {
                Some(end) => sleep_until(end).await,
                None => std::future::pending().await,
            }} => break Exit::DONE,
            _ = ticks.tick() => stage.judge(),
        }
    };
    drop(input);
    drop(stage);
    output.note("the demo has ended, and so has everything it started");
    Ok(exit)
}

enum Typed {
    Key(Do),
    Nothing,
    End,
}

/// A person at a terminal, or a pipe.
enum Input {
    #[cfg(feature = "top")]
    Screen(Box<Screen>),
    Lines {
        letters: UnboundedReceiver<char>,
        /// The end of the input is not the end.
        endless: bool,
    },
}

impl Input {
    fn open(endless: bool) -> std::io::Result<Self> {
        #[cfg(feature = "top")]
        if Screen::is_there() {
            return Ok(Self::Screen(Box::new(Screen::open()?)));
        }
        let (tell, letters) = unbounded_channel();
        // It reads without end; the process does not wait for it.
        std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
            for byte in std::io::stdin().lock().bytes().map_while(Result::ok) {
                if tell.send(char::from(byte)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self::Lines { letters, endless })
    }

    const fn is_lines(&self) -> bool {
        matches!(self, Self::Lines { .. })
    }

    fn draw(&mut self, stage: &Stage) -> std::io::Result<()> {
        match self {
            #[cfg(feature = "top")]
            Self::Screen(screen) => screen.draw_with(|frame| draw(&stage.picture(), frame)),
            Self::Lines { .. } => {
                let _ = stage;
                Ok(())
            }
        }
    }

    async fn next(&mut self) -> Typed {
        let key = match self {
            #[cfg(feature = "top")]
            Self::Screen(screen) => match screen.next().await {
                ScreenEvent::Key(Key::Char(letter)) => Some(letter),
                ScreenEvent::Key(Key::Interrupt) | ScreenEvent::Closed => return Typed::End,
                ScreenEvent::Key(_) | ScreenEvent::Resized => None,
            },
            Self::Lines { letters, endless } => match letters.recv().await {
                Some(letter) => Some(letter),
                None if *endless => std::future::pending().await,
                None => return Typed::End,
            },
        };
        key.and_then(meaning).map_or(Typed::Nothing, Typed::Key)
    }
}
