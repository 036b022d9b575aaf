//! The Rust peers of `cargo xtask bench peers`: `rslock` on tokio, `redlock` on threads.

mod protocol;
mod redlock;
mod rslock;
mod tasks;

use anyhow::{Result, bail};
use protocol::Arguments;

fn main() -> Result<()> {
    let arguments = Arguments::of(std::env::args().skip(1))?;
    match arguments.peer.as_str() {
        "rslock" => tasks::serve(&arguments, rslock::connect),
        "redlock-rs" => redlock::serve(&arguments),
        unknown => bail!("there is no peer {unknown:?} here"),
    }
}
