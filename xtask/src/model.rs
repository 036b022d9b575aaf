//! Every state of small worlds; `crates/tenure-sim/src/model.rs` has it.

use std::time::Instant;

use anyhow::Result;

use crate::simulate::example;

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let begun = Instant::now();
    example("model", arguments)?;
    println!("{:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}
