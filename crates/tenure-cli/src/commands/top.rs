//! `tenure top`: the fleet on a terminal.

use std::time::Duration;

use tokio::time::{Instant, interval, sleep_until};

use crate::args::TopArgs;
use crate::backend::Backend;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::looking::Looking;
use crate::output::{Output, Screen, ScreenEvent};
use crate::settings::Settings;
use crate::sight::{News, Sights};
use crate::signals::{Signals, ends_wait};
use crate::top::{App, Do};

/// Countdowns are drawn so often.
const DRAW_EVERY: Duration = Duration::from_millis(250);

/// News that come together are drawn together.
const DRAW_PAUSE: Duration = Duration::from_millis(50);

/// The lock that is shown in full is asked for so often.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// What is not there after this is not in the picture of those who have no terminal.
const PICTURE_LIMIT: Duration = Duration::from_secs(10);

pub(crate) async fn run(args: &TopArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    if !Screen::is_there() {
        return one_picture(settings, output).await;
    }
    let looking = Looking::connect_when_there(settings, output).await?;
    let mut signals = Signals::install()?;
    let mut sights = Sights::begin(&looking, "");
    let mut app = App::new(args.allow_force);
    let mut screen = Screen::open().map_err(|error| Failure::internal(format!("no terminal: {error}")))?;
    let (mut ticks, mut asking) = (interval(DRAW_EVERY), interval(ASK_EVERY));
    let mut drawn = Instant::now();
    loop {
        let mut ask = None;
        tokio::select! {
            news = sights.next() => match news? {
                Some(news) => {
                    ask = app.take(news);
                    // Those that follow at once are in the same picture.
                    if drawn.elapsed() < DRAW_PAUSE {
                        continue;
                    }
                }
                None => app.take(News::Stale("lost contact with the nodes".to_owned())).map_or((), drop),
            },
            event = screen.next() => match event {
                ScreenEvent::Resized => {}
                ScreenEvent::Closed => return Ok(Exit::DONE),
                ScreenEvent::Key(key) => match app.press(key) {
                    Do::Nothing => {}
                    Do::Quit => return Ok(Exit::DONE),
                    Do::Ask(name) => ask = Some(name),
                    Do::Force { name, holder } => {
                        let done = force(&looking, &name, holder.as_deref()).await;
                        app.note(done.unwrap_or_else(|failure| failure.message));
                        ask = Some(name);
                    }
                },
            },
            signal = signals.next() => {
                if ends_wait(signal) {
                    return Ok(Exit::signal(signal as i32));
                }
            }
            _ = ticks.tick() => {}
            _ = asking.tick() => ask = app.shown().map(str::to_owned),
        }
        if let Some(name) = ask
            && let Ok(report) = looking.inspect(&name).await
        {
            app.tell(report);
        }
        drawn = Instant::now();
        // A terminal that is gone is the end.
        if screen.draw(&app).is_err() {
            return Ok(Exit::DONE);
        }
    }
}

/// What there is to see, once: for pipes.
async fn one_picture(settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let looking = Looking::connect(settings, output)?;
    let (mut sights, mut app) = (Sights::begin(&looking, ""), App::new(false));
    let limit = Instant::now() + PICTURE_LIMIT;
    while !app.is_ready() {
        tokio::select! {
            news = sights.next() => match news? {
                Some(news) => drop(app.take(news)),
                None => break,
            },
            () = sleep_until(limit) => break,
        }
    }
    output.picture(&app)?;
    Ok(Exit::DONE)
}

/// Takes a lock from this holder, and from no later one.
async fn force(looking: &Looking, name: &str, holder: Option<&str>) -> Result<String, Failure> {
    let Some(holder) = holder else { return Ok("nobody holds it".to_owned()) };
    match looking.backend() {
        Backend::Nodes(locks) => {
            locks.release_by_force(name, holder).await?;
        }
        Backend::Service(service) => {
            service.release_by_force(name, holder, "released by force in tenure top").await?;
        }
    }
    Ok(format!("took {name} from its holder"))
}
