//! `tenure ls`: all locks, and what each node says about them.

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::looking::Looking;
use crate::output::Output;
use crate::settings::Settings;

/// Of so many locks the holders are asked for; a list alone does not tell them.
const INSPECTED_MAX: usize = 100;

pub(crate) async fn run(settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let locks = Looking::connect(settings, output)?;
    let mut progress = output.progress();
    let list = locks.list(|done, all| progress.keys(done, all)).await;
    progress.clear();
    let mut list = list?;
    // All at once: at a distance, one after the other would take long.
    let inspected = list.locks.iter().take(INSPECTED_MAX).map(|listed| {
        let (locks, name) = (locks.clone(), listed.name.clone());
        tokio::spawn(async move { locks.inspect(&name).await })
    });
    let inspected: Vec<_> = inspected.collect();
    for (report, inspected) in list.locks.iter_mut().zip(inspected) {
        if let Ok(Ok(inspected)) = inspected.await {
            *report = inspected;
        }
    }
    output.list(&list)?;
    let answered = list.nodes.iter().filter(|node| node.votes && node.locks.is_ok()).count();
    if answered * 2 > list.nodes.len() {
        return Ok(Exit::DONE);
    }
    Ok(Exit::without_majority(settings, list.nodes.iter().map(|node| node.is_misconfigured)))
}
