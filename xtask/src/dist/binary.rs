//! The binary of a target: static, stripped, and the same bytes wherever it is built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{Release, zig};
use crate::command::{output, run, target_folder};

/// What it is built for, and what others call that.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) triple: &'static str,
    /// In Debian and in OCI images.
    pub(super) architecture: &'static str,
}

pub(super) const ALL: [Target; 2] = [
    Target { triple: "x86_64-unknown-linux-musl", architecture: "amd64" },
    Target { triple: "aarch64-unknown-linux-musl", architecture: "arm64" },
];

impl Target {
    pub(super) fn named(name: &str) -> Result<Self> {
        let found = ALL.into_iter().find(|target| target.triple == name);
        found.with_context(|| format!("no packages are made for the target {name:?}"))
    }

    /// Whether this machine can run it.
    pub(super) fn is_ours(self) -> bool {
        self.triple.starts_with(std::env::consts::ARCH)
    }

    /// Builds it from this folder.
    pub(super) fn build(self, release: &Release) -> Result<PathBuf> {
        let source = std::path::absolute(".")?;
        let binary = self.build_in(release, &source, &std::path::absolute(target_folder())?)?;
        let kept = release.folder.join(format!("tenure-{}", self.architecture));
        fs::copy(&binary, &kept)?;
        is_static(&kept)?;
        Ok(kept)
    }

    /// Builds it from a copy of what is committed, in another folder, and compares.
    pub(super) fn build_again(self, release: &Release, first: &Path) -> Result<()> {
        let changed = output(Command::new("git").args(["status", "--porcelain", "--untracked-files=no"]))?;
        ensure!(changed.is_empty(), "the copy is of the last commit; commit or stash first:\n{changed}");
        let folder = release.workshop("built/somewhere/else")?;
        let source = folder.join("sources");
        fs::create_dir_all(&source)?;
        let archive = folder.join("sources.tar");
        output(Command::new("git").args(["archive", "--format=tar", "HEAD", "--output"]).arg(&archive))?;
        output(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&source))?;
        let second = self.build_in(release, &source, &folder.join("made"))?;
        let same = fs::read(first)? == fs::read(&second)?;
        ensure!(same, "{} and {} differ", first.display(), second.display());
        println!("    {}: built twice, in two folders: the same bytes", self.triple);
        fs::remove_dir_all(folder)?;
        Ok(())
    }

    fn build_in(self, release: &Release, source: &Path, made: &Path) -> Result<PathBuf> {
        let mut command = zig::cargo_zigbuild()?;
        command.args(["--locked", "--profile", "dist", "--package", "tenure-cli", "--target", self.triple]);
        command.current_dir(source).env("CARGO_TARGET_DIR", made).env("CARGO_INCREMENTAL", "0");
        command.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
        let places = places(source, made)?;
        let rust = places.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}"));
        command.env("CARGO_ENCODED_RUSTFLAGS", rust.collect::<Vec<_>>().join("\x1f"));
        // SQLite and others name their files in messages.
        let c = places.iter().map(|(from, to)| format!("'-ffile-prefix-map={from}={to}'"));
        command.env("CFLAGS", c.collect::<Vec<_>>().join(" ")).env("CC_SHELL_ESCAPED_FLAGS", "1");
        run(&mut command)?;
        Ok(made.join(self.triple).join("dist/tenure"))
    }
}

/// The places of this machine that must not be seen in a binary, and what is shown instead. Of two
/// that fit, the last one counts.
fn places(source: &Path, made: &Path) -> Result<Vec<(String, &'static str)>> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let of_cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let library = Path::new(sysroot.trim()).join("lib/rustlib/src/rust");
    let places =
        [(of_cargo.as_path(), "/cargo"), (&library, "/rust"), (source, "/tenure"), (made, "/target")];
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path that is not UTF-8");
    places.into_iter().map(|(path, shown)| Ok((text(path)?, shown))).collect()
}

/// A program that needs an interpreter is not static: it names one in its program headers.
fn is_static(binary: &Path) -> Result<()> {
    const INTERPRETER: u32 = 3;
    let bytes = fs::read(binary)?;
    let number = |at: usize, length: usize| -> Option<u64> {
        let field = bytes.get(at..at.checked_add(length)?)?;
        Some(field.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    };
    let place = |number: u64| usize::try_from(number).ok();
    let headers = || -> Option<Vec<u64>> {
        let (first, size, count) = (place(number(32, 8)?)?, place(number(54, 2)?)?, place(number(56, 2)?)?);
        (0..count).map(|index| number(first + index * size, 4)).collect()
    };
    match headers() {
        Some(kinds) if !kinds.is_empty() && !kinds.contains(&u64::from(INTERPRETER)) => Ok(()),
        Some(_) => bail!("{} is not static: it names an interpreter", binary.display()),
        None => bail!("{} is no 64-bit ELF program", binary.display()),
    }
}
