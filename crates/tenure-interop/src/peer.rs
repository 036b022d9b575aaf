//! The peers: what each shares with us, and how its driver is started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tenure_testkit::nursery;

use crate::driver::Driver;

/// A lock library that shares nodes with us.
#[derive(Debug)]
pub struct Peer {
    /// As `--peer` has it.
    pub name: &'static str,
    /// Its requirement in `docs/spec.md`.
    pub id: &'static str,
    /// The version that is expected, of what is in its table in `docs/reference/interop.md`.
    pub version: &'static str,
    /// What lies under a lock's key.
    pub kind: Kind,
    /// How many nodes it can share with us.
    pub nodes: &'static [usize],
    /// Whether it works while two of five nodes are gone.
    pub survives_nodes: bool,
    /// How it extends a lock.
    pub extends: Extends,
    language: Language,
    /// Folders in the one that `TENURE_PEERS` names.
    folders: &'static [&'static str],
}

/// What lies under a lock's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string, at the name.
    String,
    /// A hash, at the name.
    Hash,
    /// A string, at a digest of the name.
    Digest,
}

/// How a peer extends a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extends {
    /// Not at all, or by a watchdog.
    Never,
    /// Sets a key that is missing again, unless it is told not to.
    Recreates,
    /// Sets a key that is missing again if it is told to.
    MayRecreate,
}

#[derive(Clone, Copy, Debug)]
enum Language {
    Go,
    Java,
    Ruby,
    Php,
}

/// All of them.
pub const PEERS: &[Peer] = &[
    Peer {
        name: "redsync",
        id: "H3",
        version: "4.18.1",
        kind: Kind::String,
        nodes: &[1, 3, 5],
        survives_nodes: true,
        extends: Extends::MayRecreate,
        language: Language::Go,
        folders: &[],
    },
    Peer {
        name: "redisson",
        id: "H4",
        version: "4.7.0",
        kind: Kind::Hash,
        nodes: &[1],
        survives_nodes: false,
        extends: Extends::Never,
        language: Language::Java,
        folders: &[],
    },
    Peer {
        name: "redisson-redlock",
        id: "H4",
        version: "4.7.0",
        kind: Kind::Hash,
        nodes: &[5],
        survives_nodes: true,
        extends: Extends::Never,
        language: Language::Java,
        folders: &[],
    },
    Peer {
        name: "redlock-rb",
        id: "H1",
        version: "2.0.6",
        kind: Kind::String,
        nodes: &[1, 3, 5],
        survives_nodes: true,
        extends: Extends::Recreates,
        language: Language::Ruby,
        folders: &["redlock-rb-2.0.6", "redis-client-0.30.0"],
    },
    Peer {
        name: "redlock-php",
        id: "H2",
        version: "1.0.1",
        kind: Kind::String,
        nodes: &[1, 3, 5],
        // Its quorum is 3.5 of 5, and it fails if it cannot connect to a node.
        survives_nodes: false,
        extends: Extends::Never,
        language: Language::Php,
        folders: &["redlock-php-1.0.1"],
    },
    Peer {
        name: "yii2",
        id: "H5",
        version: "2.0.55",
        kind: Kind::Digest,
        nodes: &[1],
        survives_nodes: false,
        extends: Extends::Never,
        language: Language::Php,
        folders: &["yii2-2.0.55", "yii2-redis-2.1.2"],
    },
];

/// Before every key of Yii2's in these cases.
pub(crate) const YII2_PREFIX: &str = "p";

/// Where drivers and libraries are.
#[derive(Clone, Debug)]
pub struct Installed {
    /// What `cargo xtask interop` has built and installed.
    pub folder: PathBuf,
    /// The folder that `TENURE_PEERS` names.
    pub peers: Option<PathBuf>,
    /// Our own driver.
    pub ours: PathBuf,
}

impl Installed {
    /// Next to this program, which is in cargo's target folder; our own driver is where it is said
    /// to be.
    #[must_use]
    pub fn beside(program: &Path, ours: PathBuf) -> Self {
        let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
        let folder = target.unwrap_or_else(|| Path::new("target")).join("interop");
        let peers = std::env::var_os("TENURE_PEERS").filter(|path| !path.is_empty()).map(PathBuf::from);
        Self { folder, peers, ours }
    }

    /// Whether this peer can run here: its driver is started once.
    ///
    /// # Errors
    /// One line that says what is missing or wrong, and how to help it.
    pub fn check(&self, peer: &Peer) -> Result<(), String> {
        let mut command = self.command(peer)?;
        // It connects to nobody before it has to; Redisson does, and finds out later.
        command.arg("nodes=127.0.0.1:1,127.0.0.1:2").arg("timeout_ms=1000");
        if matches!(peer.language, Language::Php) && peer.kind == Kind::Digest {
            command.arg("nodes=127.0.0.1:1");
        }
        let driver = Driver::start(command)
            .map_err(|error| format!("{} {} does not start: {error:#}", peer.name, peer.version))?;
        if driver.version == peer.version {
            Ok(())
        } else {
            Err(format!("version {} found, {} expected", driver.version, peer.version))
        }
    }

    /// What starts its driver, without nodes.
    pub(crate) fn command(&self, peer: &Peer) -> Result<Command, String> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let run = "run `cargo xtask interop`, which installs it";
        let mut command = match peer.language {
            Language::Go => {
                let driver = self.folder.join("go/driver");
                if !driver.is_file() {
                    return Err(format!("{} is not built: {run} (needs Go 1.26)", peer.name));
                }
                nursery::command(driver)
            }
            Language::Java => {
                let folder = self.folder.join("java");
                if !folder.join("classes/Driver.class").is_file() {
                    return Err(format!("{} is not built: {run} (needs Java 17 and Maven)", peer.name));
                }
                on_path("java", "Java 17")?;
                let mut command = nursery::command("java");
                // Started often, and never for long.
                command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp"]);
                command.arg(format!("{0}/lib/*:{0}/classes", folder.display())).arg("Driver");
                command
            }
            Language::Ruby => {
                on_path("ruby", "Debian: ruby, ruby-connection-pool")?;
                let mut command = nursery::command("ruby");
                let gems = self.folder.join("gems");
                if self.peers.is_none() && gems.is_dir() {
                    command.env("GEM_HOME", gems);
                }
                for folder in self.folders(peer)?.unwrap_or_default() {
                    command.arg("-I").arg(folder.join("lib"));
                }
                command.arg(sources.join("ruby/driver.rb"));
                command
            }
            Language::Php => {
                on_path("php", "Debian: php-cli, php-redis, php-mbstring")?;
                let composer = self.folder.join("php/vendor");
                let folders = self.folders(peer)?.unwrap_or_else(|| match peer.kind {
                    Kind::Digest => {
                        vec![composer.join("yiisoft/yii2"), composer.join("yiisoft/yii2-redis")]
                    }
                    _ => vec![composer.join("ronnylt/redlock-php")],
                });
                if let Some(missing) = folders.iter().find(|folder| !folder.is_dir()) {
                    return Err(format!(
                        "{} is missing: set TENURE_PEERS to a folder with {}, or install composer and {run}",
                        missing.display(),
                        peer.folders.join(" and ")
                    ));
                }
                let source: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
                let mut command = nursery::command("php");
                command.arg(sources.join("php/driver.php"));
                command.arg(format!("source={}", source.join(",")));
                command
            }
        };
        command.arg(format!("peer={}", peer.name)).arg(format!("version={}", peer.version));
        command.arg(format!("prefix={YII2_PREFIX}"));
        Ok(command)
    }

    /// Its folders below the one that `TENURE_PEERS` names, if there is such a one.
    fn folders(&self, peer: &Peer) -> Result<Option<Vec<PathBuf>>, String> {
        let Some(peers) = &self.peers else { return Ok(None) };
        let mut folders = vec![];
        for wanted in peer.folders {
            let folder = peers.join(wanted);
            if !folder.is_dir() {
                return Err(missing(peers, wanted));
            }
            folders
                .push(fs::canonicalize(&folder).map_err(|error| format!("{}: {error}", folder.display()))?);
        }
        Ok(Some(folders))
    }
}

/// A folder that is not there, or has another version.
fn missing(peers: &Path, wanted: &str) -> String {
    let stem = wanted.rsplit_once('-').map_or(wanted, |(stem, _)| stem);
    let names = fs::read_dir(peers).into_iter().flatten().flatten();
    let others: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| {
            name.strip_prefix(stem).is_some_and(|rest| {
                rest.strip_prefix('-')
                    .is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
            })
        })
        .collect();
    let found = if others.is_empty() {
        "is missing".to_owned()
    } else {
        format!("expected, found {}", others.join(", "))
    };
    format!("{wanted} {found} in {} (TENURE_PEERS)", peers.display())
}

fn on_path(program: &str, how: &str) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
        Ok(())
    } else {
        Err(format!("{program} is not installed ({how})"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn installed(peers: &Path) -> Installed {
        Installed { folder: peers.join("nothing"), peers: Some(peers.to_owned()), ours: PathBuf::new() }
    }

    fn peer(name: &str) -> &'static Peer {
        PEERS.iter().find(|peer| peer.name == name).unwrap()
    }

    #[test]
    fn a_peer_that_was_not_built_says_how_to_build_it() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["redsync", "redisson"] {
            let error = installed(folder.path()).command(peer(name)).unwrap_err();
            assert!(error.contains("cargo xtask interop"), "{error}");
        }
    }

    #[test]
    fn a_folder_that_is_missing_or_of_another_version_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = installed(folder.path()).folders(peer("redlock-rb")).unwrap_err();
        assert!(error.starts_with("redlock-rb-2.0.6 is missing in"), "{error}");
        for other in ["redlock-rb-2.0.5", "redlock-rb-antirez"] {
            fs::create_dir(folder.path().join(other)).unwrap();
        }
        let error = installed(folder.path()).folders(peer("redlock-rb")).unwrap_err();
        assert!(error.starts_with("redlock-rb-2.0.6 expected, found redlock-rb-2.0.5 in"), "{error}");
    }
}
