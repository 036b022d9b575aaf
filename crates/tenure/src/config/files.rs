//! Which files are read, and which of them counts.
//!
//! The nearest first: the one that was named (`--config`, `TENURE_CONFIG`) or `tenure.toml` in the
//! working folder; then `tenure/tenure.toml` in the person's folder for settings; then
//! `/etc/tenure.toml`. What a file does not say comes from the next one. But a file that names
//! nodes says everything about them: with its nodes and the prefix, the fleet or the `max_ttl` of
//! another file a program would ask for locks that nobody else knows.

use std::path::{Path, PathBuf};

use super::file::{self, File};
use super::serve::Serve;
use super::{ConfigError, NodeUrl, Sourced, environment};

/// The name of the file, wherever it is.
const NAME: &str = "tenure.toml";

/// Where the machine's settings are.
const MACHINE: &str = "/etc/tenure.toml";

/// What to do about a file that is not read by itself.
const NAME_IT: &str = ", so it is ignored; pass it with --config if you trust it";

/// The files that are there, the nearest first.
pub(super) struct ConfigFiles {
    files: Vec<File>,
    /// The first one was typed.
    typed: bool,
}

impl ConfigFiles {
    /// Reads them. `named`: the nodes are known already.
    pub(super) fn find(
        typed: Option<&Path>,
        named: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ConfigError> {
        let exported = environment::read("TENURE_CONFIG", |path, _| Ok(PathBuf::from(path)))?;
        let near = match (typed, exported) {
            (Some(path), _) => Some(File::read(path, "--config")?),
            (None, Some(path)) => Some(File::read(&path.value, "TENURE_CONFIG")?),
            (None, None) if is_there(Path::new(NAME)) => match file::refusal(Path::new(NAME)) {
                None => Some(File::read(Path::new(NAME), "")?),
                Some(why) => return Err(ConfigError::invalid(format!("{why}{NAME_IT}"))),
            },
            (None, None) => None,
        };
        let mut files: Vec<File> = near.into_iter().collect();
        let own = crate::machine::home::config().map(|folder| folder.join("tenure").join(NAME));
        for path in own.into_iter().chain([PathBuf::from(MACHINE)]).filter(|path| is_there(path)) {
            if files.iter().any(|file| is_same(file.path(), &path)) {
                continue;
            }
            match file::refusal(&path) {
                None => files.push(File::read(&path, "")?),
                // Whoever names nodes does not depend on what is in it.
                Some(why) if named || files.iter().any(File::names_nodes) => {
                    warnings.push(format!("{why}, so its settings are ignored"));
                }
                Some(why) => return Err(ConfigError::invalid(format!("{why}{NAME_IT}"))),
            }
        }
        Ok(Self { files, typed: typed.is_some() })
    }

    /// This file alone, as if it had been typed.
    #[cfg(all(any(test, fuzzing), feature = "redis"))]
    pub(super) fn of(file: File) -> Self {
        Self { files: vec![file], typed: true }
    }

    /// The first file that says something.
    pub(super) fn any<T>(&self, read: impl Fn(&File) -> Option<Sourced<T>>) -> Option<Sourced<T>> {
        self.files.iter().find_map(read)
    }

    /// The first file that says something about the nodes; none behind the one that names them.
    pub(super) fn about_nodes<T>(&self, read: impl Fn(&File) -> Option<Sourced<T>>) -> Option<Sourced<T>> {
        let last = self.files.iter().position(File::names_nodes).unwrap_or(self.files.len());
        self.files.iter().take(last + 1).find_map(read)
    }

    /// The nodes of the first file that names any.
    pub(super) fn nodes(&self) -> Result<Option<Sourced<Vec<NodeUrl>>>, ConfigError> {
        let password_file = self.about_nodes(File::password_file).map(|path| path.value);
        let file = self.files.iter().find(|file| file.names_nodes());
        file.map(|file| file.nodes(password_file.as_deref())).transpose()
    }

    /// The nodes of the file that was typed, if it names any.
    pub(super) fn typed_nodes(&self) -> Result<Option<Sourced<Vec<NodeUrl>>>, ConfigError> {
        let names_them = self.typed && self.files.first().is_some_and(File::names_nodes);
        if names_them { self.nodes() } else { Ok(None) }
    }

    /// The service, as the first file that has one describes it.
    pub(super) fn serve(&self) -> Option<Serve> {
        self.files.iter().find_map(File::serve)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(File::path)
    }

    /// Passwords that others can read.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.files.iter().flat_map(File::warnings)
    }
}

/// Whether there is one. A link that leads nowhere is there, too; a folder that may not be entered
/// has nothing for us.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn is_same(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}
