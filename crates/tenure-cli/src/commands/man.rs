//! `tenure man`: manual pages, made from the help texts.

use clap::Command;

use crate::args::{ManArgs, described};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn run(args: &ManArgs, output: &Output) -> Result<Exit, Failure> {
    let tool = described();
    if let Some(folder) = &args.folder {
        let cannot = |error| Failure::usage(format!("cannot write {}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(cannot)?;
        for (name, page) in pages(&tool)? {
            std::fs::write(folder.join(format!("{name}.1")), page).map_err(cannot)?;
        }
        return Ok(Exit::DONE);
    }
    let wanted =
        args.command.as_ref().map_or_else(|| "tenure".to_owned(), |command| format!("tenure-{command}"));
    let page = pages(&tool)?.into_iter().find(|(name, _)| *name == wanted);
    let (_, page) = page.ok_or_else(|| Failure::usage(format!("no such command: {wanted:?}; see --help")))?;
    output.raw(&page)?;
    Ok(Exit::DONE)
}

fn pages(tool: &Command) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let shown =
        tool.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
    let named = shown.map(|command| {
        let name = format!("tenure-{}", command.get_name());
        (name, command.clone())
    });
    let render = |(name, command): (String, Command)| {
        let mut page = vec![];
        let rendered = clap_mangen::Man::new(command).render(&mut page);
        rendered.map_err(|error| Failure::internal(format!("cannot render a manual page: {error}")))?;
        Ok((name, page))
    };
    [("tenure".to_owned(), tool.clone())].into_iter().chain(named).map(render).collect()
}
