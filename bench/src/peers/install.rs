//! Installs the peers from their package registries and builds their drivers, in a folder that git
//! ignores. What cannot be had is left out, with the reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tenure_testkit::nursery;

use super::contender::{Contender, Language, Peer, Stores};

/// The drivers that are there.
pub(crate) struct Installed {
    folder: PathBuf,
    /// What is not there, and why.
    missing: BTreeMap<Language, String>,
}

impl Installed {
    /// Installs what these peers need.
    pub(crate) fn install(peers: &[&Peer]) -> Result<Self> {
        let program = std::env::current_exe()?;
        let target = program.ancestors().nth(2).context("the program is in a target folder")?;
        let mut installed = Self { folder: target.join("peers"), missing: BTreeMap::new() };
        let languages = [Language::Rust, Language::Go, Language::Java, Language::Node, Language::Python];
        for language in languages {
            if peers.iter().any(|peer| peer.language == language) {
                let folder = installed.folder.join(language.folder());
                eprintln!("peers: installing {} in {}", language.title(), folder.display());
                fs::create_dir_all(&folder)?;
                if let Err(error) = language.install(&folder) {
                    installed.missing.insert(language, format!("{error:#}"));
                }
            }
        }
        Ok(installed)
    }

    /// Where results go unless it is said.
    pub(crate) fn results(&self) -> PathBuf {
        self.folder.join("results")
    }

    /// Why a peer cannot take part.
    pub(crate) fn missing(&self, peer: &Peer) -> Option<String> {
        if peer.stores == Stores::Etcd && !on_path("etcd") {
            return Some("the server `etcd` is not installed (Debian: etcd-server)".to_owned());
        }
        self.missing.get(&peer.language).cloned()
    }

    /// What starts the driver of a contender.
    pub(crate) fn command(&self, contender: &Contender) -> Result<Command> {
        let folder = self.folder.join(contender.peer.language.folder());
        let mut command = match contender.peer.language {
            Language::Ours => {
                let mut command = nursery::command(std::env::current_exe()?);
                command.arg("peers-driver");
                command
            }
            Language::Rust => nursery::command(folder.join("release/peers")),
            Language::Go => nursery::command(folder.join("peers")),
            Language::Java => {
                let mut command = nursery::command("java");
                let classes = format!("{0}/lib/*:{0}/classes", folder.display());
                command.args(["-cp", &classes, "Peers"]);
                command
            }
            Language::Node => {
                let mut command = nursery::command("node");
                command.arg(folder.join("peers.js"));
                command
            }
            Language::Python => {
                let mut command = nursery::command(folder.join("bin/python"));
                command.arg("-B").arg(sources(Language::Python).join("peers.py"));
                command
            }
        };
        command.arg(format!("peer={}", contender.peer.name));
        command.arg(format!("settings={}", contender.settings()));
        command.arg(format!("runtime={}", contender.runtime.name()));
        Ok(command)
    }
}

impl Language {
    const fn title(self) -> &'static str {
        match self {
            Self::Ours => "Tenure and the floors",
            Self::Rust => "rslock, redlock",
            Self::Go => "redsync, rueidislock, etcd's client",
            Self::Java => "Redisson",
            Self::Node => "node-redlock, redlock-universal",
            Self::Python => "pottery, redlock-py",
        }
    }

    const fn folder(self) -> &'static str {
        match self {
            Self::Ours => "",
            Self::Rust => "rust",
            Self::Go => "go",
            Self::Java => "java",
            Self::Node => "node",
            Self::Python => "python",
        }
    }

    fn install(self, folder: &Path) -> Result<()> {
        let sources = sources(self);
        match self {
            Self::Ours => Ok(()),
            Self::Rust => {
                let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
                let mut command = Command::new(cargo);
                command.args(["build", "--release", "--quiet", "--manifest-path"]);
                run(command.arg(sources.join("Cargo.toml")).arg("--target-dir").arg(folder))
            }
            Self::Go => {
                run(Command::new("go").current_dir(sources).args(["build", "-o"]).arg(folder.join("peers")))
            }
            Self::Java => {
                let lib = folder.join("lib");
                once(folder, &sources.join("pom.xml"), || {
                    let mut command = Command::new("mvn");
                    command.args(["--batch-mode", "--quiet", "dependency:copy-dependencies"]);
                    command.arg("-DincludeScope=runtime").arg(format!("-DoutputDirectory={}", lib.display()));
                    run(command.current_dir(&sources))
                })?;
                let mut command = Command::new("javac");
                command.arg("-cp").arg(lib.join("*")).arg("-d").arg(folder.join("classes"));
                run(command.args(files(&sources, "java")?))
            }
            Self::Node => {
                copy(&files(&sources, "js")?, folder)?;
                copy(&[sources.join("package.json")], folder)?;
                once(folder, &sources.join("package.json"), || {
                    let mut command = Command::new("npm");
                    command.args(["install", "--no-audit", "--no-fund", "--no-package-lock"]);
                    run(command.current_dir(folder))
                })
            }
            Self::Python => once(folder, &sources.join("requirements.txt"), || {
                run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
                let mut command = Command::new(folder.join("bin/pip"));
                command.args(["install", "--quiet", "--disable-pip-version-check", "--requirement"]);
                run(command.arg(sources.join("requirements.txt")))
            }),
        }
    }
}

/// The driver's sources.
fn sources(language: Language) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(language.folder())
}

fn copy(files: &[PathBuf], folder: &Path) -> Result<()> {
    for file in files {
        fs::copy(file, folder.join(file.file_name().context("a file has a name")?))?;
    }
    Ok(())
}

/// Installs what a manifest names, unless that was done.
fn once(folder: &Path, manifest: &Path, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let (done, wanted) = (folder.join("installed"), fs::read_to_string(manifest)?);
    if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    install()?;
    Ok(fs::write(done, wanted)?)
}

fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = vec![];
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    ensure!(!files.is_empty(), "{} has no .{extension} file", folder.display());
    Ok(files)
}

/// Runs a command; an error has what it said last.
fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("{program} cannot be started"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    bail!("{program} failed: {}", lines[lines.len().saturating_sub(3)..].join(" | "))
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
