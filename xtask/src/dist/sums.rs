//! The checksums of everything that was made, as `sha256sum --check` reads them.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{Release, put, tar};

pub(super) fn write(release: &Release, made: &[PathBuf]) -> Result<()> {
    let mut lines = vec![];
    for file in made {
        let name = file.file_name().and_then(|name| name.to_str()).context("a file has a name")?;
        lines.push((name, format!("{}  {name}\n", tar::sha256_of(file)?)));
    }
    lines.sort();
    let text: String = lines.into_iter().map(|(_, line)| line).collect();
    put(&release.folder.join("SHA256SUMS"), text.as_bytes())
}
