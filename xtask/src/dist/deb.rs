//! The Debian package: the tool, its manual, its completions, and the unit of the service.
//!
//! `packaging/deb/` has what people write: the description, what is done when it is installed and
//! removed, and why a check of lintian does not apply. Debian's own `dpkg-deb` packs it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::binary::Target;
use super::contents::Contents;
use super::{Release, needs, put, tar};
use crate::command::output;

const SOURCES: &str = "packaging/deb";

/// What is done when the package is installed and removed.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Builds `tenure_VERSION_ARCHITECTURE.deb`. The version is that of the release, but in a test of
/// an upgrade.
pub(super) fn build(
    release: &Release,
    target: &Target,
    contents: &Contents,
    version: &str,
) -> Result<PathBuf> {
    needs("dpkg-deb", "dpkg")?;
    let root = release.workshop("deb")?;
    let file = |name: &str, mode: u32, bytes: &[u8]| -> Result<()> {
        let path = root.join(name);
        put(&path, bytes)?;
        Ok(fs::set_permissions(path, PermissionsExt::from_mode(mode))?)
    };
    file("usr/bin/tenure", 0o755, &contents.binary)?;
    file("usr/lib/systemd/system/tenure.service", 0o644, &source(Path::new("packaging/tenure.service"))?)?;
    for (page, text) in &contents.manual {
        file(&format!("usr/share/man/man1/{page}.gz"), 0o644, &tar::gzip(text)?)?;
    }
    let places = ["bash-completion/completions/tenure", "zsh/vendor-completions/_tenure"];
    let places = places.into_iter().chain(["fish/vendor_completions.d/tenure.fish"]);
    for (place, (_, script)) in places.zip(&contents.completions) {
        file(&format!("usr/share/{place}"), 0o644, script)?;
    }
    let documents = "usr/share/doc/tenure";
    file(&format!("{documents}/copyright"), 0o644, &ours("copyright")?)?;
    file(&format!("{documents}/changelog.gz"), 0o644, &tar::gzip(changelog(release, version)?.as_bytes())?)?;
    file(&format!("{documents}/NEWS.gz"), 0o644, &tar::gzip(&source(Path::new("CHANGELOG.md"))?)?)?;
    file(&format!("{documents}/examples/tenure.toml"), 0o644, &ours("tenure.toml")?)?;
    file("usr/share/lintian/overrides/tenure", 0o644, &ours("lintian-overrides")?)?;
    for script in SCRIPTS {
        file(&format!("DEBIAN/{script}"), 0o755, &ours(script)?)?;
    }
    file("DEBIAN/control", 0o644, control(target, version, size_kib(&root)?)?.as_bytes())?;
    file("DEBIAN/md5sums", 0o644, sums(&root)?.as_bytes())?;
    folders_are_open(&root)?;
    let path = release.folder.join(format!("tenure_{version}_{}.deb", target.architecture));
    let mut command = Command::new("dpkg-deb");
    // Times that are later than this are set to it.
    command.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    output(command.args(["--root-owner-group", "-Zxz", "--build"]).arg(&root).arg(&path))?;
    Ok(path)
}

fn ours(name: &str) -> Result<Vec<u8>> {
    source(&Path::new(SOURCES).join(name))
}

fn source(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{} cannot be read", path.display()))
}

fn control(target: &Target, version: &str, size_kib: u64) -> Result<String> {
    let text = String::from_utf8(ours("control")?)?;
    let text = text.replace("{version}", version).replace("{architecture}", target.architecture);
    Ok(text.replace("{size}", &size_kib.to_string()))
}

/// What Debian wants to read about a version; what changed for people is in `NEWS.gz`.
fn changelog(release: &Release, version: &str) -> Result<String> {
    let date = output(
        Command::new("date").args(["--utc", "--rfc-email"]).arg(format!("--date=@{}", release.epoch)),
    )?;
    let control = String::from_utf8(ours("control")?)?;
    let who = control.lines().find_map(|line| line.strip_prefix("Maintainer: "));
    let who = who.context("the package has no maintainer")?;
    Ok(format!(
        "tenure ({version}) unstable; urgency=medium\n\n  * See /usr/share/doc/tenure/NEWS.gz.\n\n -- {who}  {date}"
    ))
}

/// What the files come to, as dpkg counts: in KiB, each file rounded up.
fn size_kib(root: &Path) -> Result<u64> {
    let sizes = files(root)?.into_iter().map(|file| Ok(fs::metadata(root.join(file))?.len().div_ceil(1024)));
    Ok(sizes.collect::<Result<Vec<_>>>()?.into_iter().sum())
}

fn sums(root: &Path) -> Result<String> {
    let files = files(root)?.into_iter().filter(|file| !file.starts_with("DEBIAN"));
    output(Command::new("md5sum").current_dir(root).args(files))
}

/// All files below a folder, in order.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let found = output(Command::new("find").current_dir(root).args([".", "-type", "f", "-printf", "%P\\n"]))?;
    let mut files: Vec<PathBuf> = found.lines().map(PathBuf::from).collect();
    files.sort();
    Ok(files)
}

/// Whatever this user keeps from others by default.
fn folders_are_open(root: &Path) -> Result<()> {
    output(Command::new("find").arg(root).args(["-type", "d", "-exec", "chmod", "755", "{}", "+"]))?;
    Ok(())
}
