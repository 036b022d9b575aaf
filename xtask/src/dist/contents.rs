//! What comes with the binary: manual pages, completions, licences. All of it as a tarball.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::binary::Target;
use super::tar::{self, Tar};
use super::{Release, put};
use crate::command::{cargo, output, target_folder};

/// Shells, and what each calls its script.
pub(super) const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "tenure.bash"), ("zsh", "_tenure"), ("fish", "tenure.fish")];

/// What is copied as it is.
const FILES: &[&str] =
    &["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "packaging/tenure.service"];

/// A binary and what comes with it.
pub(super) struct Contents {
    pub(super) binary: Vec<u8>,
    /// Name and text, in the order of the names.
    pub(super) manual: Vec<(String, Vec<u8>)>,
    /// The name of the script, and the script.
    pub(super) completions: Vec<(&'static str, Vec<u8>)>,
}

impl Contents {
    /// The pages and scripts are made by the tool itself: by this one if it runs here, or by one
    /// that is built for this machine.
    pub(super) fn of(release: &Release, binary: &Path) -> Result<Self> {
        let ours = super::ALL.into_iter().find(|target| target.is_ours());
        let ours = ours.map(|target| release.folder.join(format!("tenure-{}", target.architecture)));
        let tool = match ours.filter(|tool| tool.exists()) {
            Some(tool) => tool,
            None => {
                output(&mut cargo(["build", "--quiet", "--locked", "--package", "tenure-cli"]))?;
                std::path::absolute(target_folder())?.join("debug/tenure")
            }
        };
        let pages = release.workshop("man")?;
        output(Command::new(&tool).arg("man").arg("--folder").arg(&pages))?;
        let mut manual = vec![];
        for entry in fs::read_dir(&pages)? {
            let entry = entry?;
            let name = entry.file_name().into_string().ok().context("a page's name is plain")?;
            manual.push((name, fs::read(entry.path())?));
        }
        manual.sort();
        let script = |(shell, name)| -> Result<(&'static str, Vec<u8>)> {
            Ok((name, output(Command::new(&tool).args(["completions", shell]))?.into_bytes()))
        };
        let completions = COMPLETIONS.into_iter().map(script).collect::<Result<_>>()?;
        Ok(Self { binary: fs::read(binary)?, manual, completions })
    }

    /// `tenure-VERSION-TARGET.tar.gz`, with everything in one folder of that name.
    pub(super) fn tarball(&self, release: &Release, target: &Target) -> Result<PathBuf> {
        let name = format!("tenure-{}-{}", release.version, target.triple);
        let mut archive = Tar::default();
        archive.file(&format!("{name}/tenure"), 0o755, self.binary.clone());
        for (page, text) in &self.manual {
            archive.file(&format!("{name}/man/{page}"), 0o644, text.clone());
        }
        for (script, text) in &self.completions {
            archive.file(&format!("{name}/completions/{script}"), 0o644, text.clone());
        }
        for file in FILES {
            let short = file.rsplit('/').next().unwrap_or(file);
            let text = fs::read(file).with_context(|| format!("{file} cannot be read"))?;
            archive.file(&format!("{name}/{short}"), 0o644, text);
        }
        let path = release.folder.join(format!("{name}.tar.gz"));
        put(&path, &tar::gzip(&archive.bytes(release.epoch)?)?)?;
        Ok(path)
    }
}
