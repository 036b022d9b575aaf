//! Packages: a static binary for each architecture, as a tarball, a Debian package and an OCI
//! archive, with their checksums.
//!
//! The same sources and compiler give the same bytes, in whichever folder and whenever: paths are
//! mapped away, every time is that of the last commit, every owner is a number. Nothing needs a
//! container engine: the archives are written here (`tar.rs`, `oci.rs`), and Debian's own
//! `dpkg-deb` makes the package. What was made is then tried (`trial.rs`).

mod binary;
mod contents;
mod deb;
mod oci;
mod sums;
mod tar;
mod trial;
mod zig;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::binary::{ALL, Target};
use self::contents::Contents;
use crate::command::{cargo, output, target_folder};

const HELP: &str = "\
Packages: static binaries, tarballs, Debian packages and OCI archives.

Usage: cargo xtask dist [--target TARGET]... [--check-reproducible] [--no-trial]

  --target TARGET        only for this target; there are x86_64-unknown-linux-musl and
                         aarch64-unknown-linux-musl [default: both]
  --check-reproducible   build each binary a second time, from a copy in another folder, and fail if
                         a byte differs
  --no-trial             do not try what was made (as root: install the package in a Debian made for
                         it, start the image from an empty root)

What is made lies in target/packages. packaging/README.md says what is what.
";

/// What a version is made of.
struct Release {
    version: String,
    /// When the last commit was made, in seconds since 1970: the time of every file.
    epoch: u64,
    folder: PathBuf,
}

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (mut targets, mut twice, mut tried) = (vec![], false, true);
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        match argument {
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            "--target" => targets.push(Target::named(rest.next().copied().unwrap_or_default())?),
            "--check-reproducible" => twice = true,
            "--no-trial" => tried = false,
            unknown => bail!("unknown option {unknown:?}\n\n{HELP}"),
        }
    }
    if targets.is_empty() {
        targets.extend(ALL);
    }
    let release = Release::now()?;
    zig::install(&targets)?;
    let binaries = targets.iter().map(|target| target.build(&release)).collect::<Result<Vec<_>>>()?;
    if twice {
        for (target, binary) in targets.iter().zip(&binaries) {
            target.build_again(&release, binary)?;
        }
    }
    let mut made = vec![];
    for (target, binary) in targets.iter().zip(&binaries) {
        let contents = Contents::of(&release, binary)?;
        made.push(contents.tarball(&release, target)?);
        made.push(deb::build(&release, target, &contents, &release.version)?);
        made.push(oci::build(&release, target, &contents)?);
    }
    sums::write(&release, &made)?;
    if tried {
        trial::run(&release, &targets)?;
    }
    println!("\n{}:", release.folder.display());
    for file in &made {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        println!("    {:>9} KiB  {name}", fs::metadata(file)?.len().div_ceil(1024));
    }
    println!("    checksums: SHA256SUMS");
    Ok(())
}

impl Release {
    fn now() -> Result<Self> {
        let folder = std::path::absolute(target_folder())?.join("packages");
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let time = output(Command::new("git").args(["log", "-1", "--format=%ct"]))?;
        let epoch = time.trim().parse().context("git does not tell when the last commit was made")?;
        Ok(Self { version: version()?, epoch, folder })
    }

    /// An empty folder for something that is being made.
    fn workshop(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("{} cannot be emptied", folder.display()));
            }
            _ => fs::create_dir_all(&folder)?,
        }
        Ok(folder)
    }
}

/// The version that all crates share.
pub(crate) fn version() -> Result<String> {
    let text = output(&mut cargo(["pkgid", "--package", "tenure-cli"]))?;
    let version = text.trim().rsplit(['#', '@']).next().map(str::to_owned);
    version
        .filter(|version| version.starts_with(|c: char| c.is_ascii_digit()))
        .context("cargo names no version")
}

/// A program that something of ours cannot do without.
fn needs(program: &str, package: &str) -> Result<()> {
    crate::prerequisites::install_missing(program, package)
}

/// Makes a file and the folders above it.
fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder)?;
    fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}
