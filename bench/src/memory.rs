//! The memory that this process has.

use anyhow::{Context, Result};

/// What is resident, in bytes.
pub(crate) fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("/proc/self/status cannot be read")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("it has no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is not what it should be")?;
    Ok(kib * 1_024)
}
