//! `tenure ls`: all locks, and what each node says about them.

use crate::commands::status::unreachable;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::Settings;

/// Of so many locks the holders are asked for, one by one; a list alone does not tell them.
const INSPECTED_MAX: usize = 100;

pub(crate) async fn run(settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let locks = settings.connect(|_| ())?;
    locks.ready().await;
    let list = locks.list().await?;
    let mut reports = vec![];
    for (index, listed) in list.locks.iter().enumerate() {
        let report = match index {
            ..INSPECTED_MAX => locks.inspect(&listed.name).await.unwrap_or_else(|_| listed.clone()),
            _ => listed.clone(),
        };
        reports.push(report);
    }
    output.list(&list, &reports)?;
    let answered = list.nodes.iter().filter(|node| node.votes && node.told.is_ok()).count();
    Ok(if answered * 2 > list.nodes.len() { Exit::DONE } else { unreachable(settings) })
}
