//! What was made, tried: as far as this machine can. What cannot be tried is named.
//!
//! Binary and image are started from an empty root, in namespaces of their own. The package is
//! installed, upgraded, removed and purged in a Debian that `debootstrap` makes for it; this
//! machine's own packages are not touched.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::binary::Target;
use super::contents::Contents;
use super::{Release, deb, needs, oci};
use crate::command::{output, run as run_command};

/// What the service and its administrator leave in a machine, as systemd makes it.
const LEFT: &str = "mkdir -p /var/lib/private/tenure /var/log/private/tenure /etc/tenure
ln -s private/tenure /var/lib/tenure
ln -s private/tenure /var/log/tenure
echo store > /var/lib/private/tenure/locks.db
echo '{}' > /var/log/private/tenure/access.log
echo '[serve]' > /etc/tenure/tenure.toml";

/// What is not part of a comparison: what dpkg and its triggers write for themselves.
const NOT_COMPARED: &[&str] =
    &["/proc", "/sys", "/dev", "/run", "/var/lib/dpkg", "/var/log/dpkg.log", "/tmp", "/var/cache"];

pub(super) fn run(release: &Release, targets: &[Target]) -> Result<()> {
    for target in targets {
        in_empty_root(release, target)?;
        image(release, target)?;
    }
    for target in targets {
        lintian(release, target)?;
    }
    match targets.iter().find(|target| target.is_ours()) {
        None => println!("    not tried: installing the package (no package is for this machine)"),
        Some(_) if !is_root()? => println!("    not tried: installing the package (needs root)"),
        Some(target) => installed_and_removed(release, target)?,
    }
    Ok(())
}

/// The binary alone, in a root that has nothing else.
fn in_empty_root(release: &Release, target: &Target) -> Result<()> {
    let root = release.workshop("root")?;
    fs::copy(release.folder.join(format!("tenure-{}", target.architecture)), root.join("tenure"))?;
    let Some(said) = starts(&root, target, "/tenure", 0)? else { return Ok(()) };
    println!("    {}: runs in an empty root: {said}", target.triple);
    Ok(())
}

/// The image: read by another program, taken apart, and started as it says.
fn image(release: &Release, target: &Target) -> Result<()> {
    needs("skopeo", "skopeo")?;
    let archive =
        release.folder.join(format!("tenure-{}-linux-{}.oci.tar", release.version, target.architecture));
    let source = format!("oci-archive:{}", archive.display());
    let seen: Value = serde_json::from_str(&output(Command::new("skopeo").args(["inspect", &source]))?)?;
    ensure!(seen["Architecture"] == target.architecture, "skopeo sees another image: {seen}");
    let folder = release.workshop("image")?;
    output(
        Command::new("skopeo").args(["copy", "--quiet", &source]).arg(format!("dir:{}", folder.display())),
    )?;
    let root = release.workshop("root")?;
    for layer in seen["Layers"].as_array().context("an image has layers")? {
        let digest = layer.as_str().and_then(|layer| layer.strip_prefix("sha256:")).context("a digest")?;
        output(Command::new("tar").arg("-xzf").arg(folder.join(digest)).arg("-C").arg(&root))?;
    }
    let Some(said) = starts(&root, target, &format!("/{}", oci::TOOL), oci::USER)? else { return Ok(()) };
    println!("    linux/{}: image read by skopeo, starts: {said}", target.architecture);
    Ok(())
}

/// Runs the tool under a lock of its own, in this root, as this user; one for another processor
/// only says its version, under an emulator. `None` if this machine cannot.
fn starts(root: &Path, target: &Target, tool: &str, user: u32) -> Result<Option<String>> {
    if target.is_ours() {
        return Ok(Some(within(root, user, &[tool, "run", "hello", "--", tool, "--version"])?));
    }
    let emulator = format!("qemu-{}-static", target.triple.split('-').next().unwrap_or_default());
    let Ok(found) = output(Command::new("sh").args(["-c", &format!("command -v {emulator}")])) else {
        println!("    not tried: {} on this machine (install qemu-user-static)", target.triple);
        return Ok(None);
    };
    // It is static, too, so it also runs there.
    fs::copy(found.trim(), root.join("emulator"))?;
    Ok(Some(within(root, user, &["/emulator", tool, "--version"])?))
}

/// What a command says in this root. Every container has `/proc` and `/dev/null`, so this one has,
/// too. Without the rights of root everything in it is ours, and we are root there.
fn within(root: &Path, user: u32, command: &[&str]) -> Result<String> {
    const PREPARED: &str = "PATH=$PATH:/usr/sbin:/sbin
        root=$1 user=$2 chroot=$(command -v chroot)
        shift 2
        mount -t proc proc \"$root/proc\" && mount --bind /dev/null \"$root/dev/null\" && \
        exec env -i XDG_STATE_HOME=/var/lib \"$chroot\" --userspec=\"$user:$user\" \"$root\" \"$@\"";
    fs::create_dir_all(root.join("proc"))?;
    super::put(&root.join("dev/null"), b"")?;
    let mut unshare = Command::new("unshare");
    let (map, user) = if is_root()? { (None, user) } else { (Some("--map-root-user"), 0) };
    unshare.args(map).args(["--mount", "--pid", "--fork", "sh", "-c", PREPARED, "sh"]);
    let said = output(unshare.arg(root).arg(user.to_string()).args(command))?;
    ensure!(said.starts_with("tenure "), "the tool said {said:?}");
    Ok(said.trim().to_owned())
}

fn lintian(release: &Release, target: &Target) -> Result<()> {
    needs("lintian", "lintian")?;
    let package = release.folder.join(format!("tenure_{}_{}.deb", release.version, target.architecture));
    let mut command = Command::new("lintian");
    run_command(command.args(["--fail-on", "error", "--no-cfg", "--allow-root"]).arg(&package))?;
    println!("    {}: lintian finds no error", target.architecture);
    Ok(())
}

/// Installs, upgrades, removes and purges, and looks at what is left each time.
fn installed_and_removed(release: &Release, target: &Target) -> Result<()> {
    needs("debootstrap", "debootstrap")?;
    let binary = release.folder.join(format!("tenure-{}", target.architecture));
    let contents = Contents::of(release, &binary)?;
    let first = release.folder.join(format!("tenure_{}_{}.deb", release.version, target.architecture));
    let next = deb::build(release, target, &contents, &format!("{}+next", release.version))?;
    let machine = Machine::new(release)?;
    let before = machine.files()?;

    // As people have it who only want the tool.
    machine.dpkg(&["--install"], Some(&first))?;
    ensure!(machine.sh("tenure run hello -- tenure --version")?.starts_with("tenure "), "it does not run");
    machine.sh("rm -r /root/.local")?;
    machine.dpkg(&["--install"], Some(&next))?;
    machine.dpkg(&["--remove", "tenure"], None)?;
    left(&before, &machine.files()?, &[])?;

    // As people have it who run the service.
    machine.dpkg(&["--install"], Some(&first))?;
    machine.sh(LEFT)?;
    let running = machine.files()?;
    machine.dpkg(&["--install"], Some(&next))?;
    let state = [
        "/var/lib/private",
        "/var/lib/private/tenure",
        "/var/lib/private/tenure/locks.db",
        "/var/lib/tenure",
    ];
    let upgraded = machine.files()?;
    let kept = |path: &&str| running.get(*path) == upgraded.get(*path);
    ensure!(state.iter().all(kept), "an upgrade changed the state folder");
    machine.dpkg(&["--remove", "tenure"], None)?;
    let logs = [
        "/var/log/private",
        "/var/log/private/tenure",
        "/var/log/private/tenure/access.log",
        "/var/log/tenure",
    ];
    let settings = ["/etc/tenure", "/etc/tenure/tenure.toml"];
    left(&before, &machine.files()?, &[&state[..], &logs, &settings].concat())?;
    machine.dpkg(&["--purge", "tenure"], None)?;
    left(&before, &machine.files()?, &[&state[..], &["/var/log/private"]].concat())?;
    println!(
        "    {}: installed, upgraded, removed, purged: the state folder is left, and nothing else",
        target.architecture
    );
    fs::remove_file(next)?;
    Ok(())
}

/// Makes sure that the difference is this and nothing else.
fn left(before: &Files, after: &Files, expected: &[&str]) -> Result<()> {
    let is_new = |(path, file): &(&String, &String)| before.get(*path) != Some(*file);
    let mut new: Vec<&str> = after.iter().filter(is_new).map(|(path, _)| path.as_str()).collect();
    let mut expected = expected.to_vec();
    new.sort_unstable();
    expected.sort_unstable();
    ensure!(new == expected, "left behind is {new:?}, and should be {expected:?}");
    let gone: Vec<&String> = before.keys().filter(|path| !after.contains_key(*path)).collect();
    ensure!(gone.is_empty(), "these are gone: {gone:?}");
    Ok(())
}

/// A file's path, and what it is: kind, mode, owner, and for files their checksum.
type Files = BTreeMap<String, String>;

/// A small Debian in a folder.
struct Machine {
    root: PathBuf,
}

impl Machine {
    /// Made once, and copied.
    fn new(release: &Release) -> Result<Self> {
        let base = release.folder.join("debian.tar");
        if !base.exists() {
            let folder = release.workshop("debian")?;
            println!("    a small Debian is fetched, once");
            output(Command::new("debootstrap").args(["--variant=minbase", "stable"]).arg(&folder))?;
            output(Command::new("tar").arg("-C").arg(&folder).arg("-cf").arg(&base).arg("."))?;
        }
        let root = release.workshop("debian")?;
        output(Command::new("tar").arg("-C").arg(&root).arg("-xf").arg(&base))?;
        Ok(Self { root })
    }

    fn dpkg(&self, arguments: &[&str], package: Option<&Path>) -> Result<()> {
        let mut command = Command::new("dpkg");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg(format!("--root={}", self.root.display()));
        output(command.args(arguments).args(package))?;
        Ok(())
    }

    /// What a command says there.
    fn sh(&self, script: &str) -> Result<String> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--mount-proc"]);
        command.arg(format!("--root={}", self.root.display())).env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root");
        output(command.args(["/bin/sh", "-euc", script]))
    }

    fn files(&self) -> Result<Files> {
        let list = "find / -xdev \\( -type f -exec sha256sum {} + \\) -o -printf '%y%m%U%l  %p\\n'";
        let listed = self.sh(list)?;
        let lines = listed.lines().filter_map(|line| line.split_once("  "));
        let compared = |path: &str| !NOT_COMPARED.iter().any(|left_out| path.starts_with(left_out));
        Ok(lines
            .filter(|(_, path)| compared(path))
            .map(|(file, path)| (path.to_owned(), file.to_owned()))
            .collect())
    }
}

fn is_root() -> Result<bool> {
    Ok(output(Command::new("id").arg("-u"))?.trim() == "0")
}
