//! A tar archive of which every byte is decided: entries in the order of their names, one time,
//! numeric owners, and nothing of the machine that made it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

const BLOCK: usize = 512;

/// What an archive has, by name. Folders end with a slash.
#[derive(Default)]
pub(super) struct Tar {
    entries: BTreeMap<String, Entry>,
}

struct Entry {
    mode: u32,
    owner: u32,
    bytes: Vec<u8>,
}

impl Tar {
    /// A file of root's; and the folders above it, unless they are there.
    pub(super) fn file(&mut self, name: &str, mode: u32, bytes: Vec<u8>) {
        for (at, _) in name.match_indices('/') {
            self.entries.entry(name[..=at].to_owned()).or_insert(Entry {
                mode: 0o755,
                owner: 0,
                bytes: vec![],
            });
        }
        self.entries.insert(name.to_owned(), Entry { mode, owner: 0, bytes });
    }

    /// A folder, of this user and the group of the same number.
    pub(super) fn folder(&mut self, name: &str, mode: u32, owner: u32) {
        self.file(&format!("{name}/"), mode, vec![]);
        self.entries.insert(format!("{name}/"), Entry { mode, owner, bytes: vec![] });
    }

    /// The archive, in the form that POSIX calls ustar.
    pub(super) fn bytes(&self, epoch: u64) -> Result<Vec<u8>> {
        let mut archive = vec![];
        for (name, entry) in &self.entries {
            archive.extend(header(name, entry, epoch)?);
            archive.extend(&entry.bytes);
            archive.resize(archive.len().next_multiple_of(BLOCK), 0);
        }
        // Two empty blocks end it.
        archive.resize(archive.len() + 2 * BLOCK, 0);
        Ok(archive)
    }
}

fn header(name: &str, entry: &Entry, epoch: u64) -> Result<[u8; BLOCK]> {
    let mut header = [0; BLOCK];
    let mut field = |at: usize, length: usize, text: &str| -> Result<()> {
        ensure!(text.len() <= length, "{name}: {text:?} does not fit into an archive");
        header[at..at + text.len()].copy_from_slice(text.as_bytes());
        Ok(())
    };
    field(0, 100, name)?;
    field(100, 7, &format!("{:07o}", entry.mode))?;
    field(108, 7, &format!("{:07o}", entry.owner))?;
    field(116, 7, &format!("{:07o}", entry.owner))?;
    field(124, 11, &format!("{:011o}", entry.bytes.len()))?;
    field(136, 11, &format!("{epoch:011o}"))?;
    field(148, 8, "        ")?;
    field(156, 1, if name.ends_with('/') { "5" } else { "0" })?;
    field(257, 8, "ustar\x0000")?;
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

/// The bytes, compressed, without name or time.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    through(Command::new("gzip").args(["--no-name", "--best", "--stdout"]), bytes)
}

/// The checksum of the bytes, in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> Result<String> {
    let said = String::from_utf8(through(&mut Command::new("sha256sum"), bytes)?)?;
    said.split(' ').next().filter(|sum| sum.len() == 64).map(str::to_owned).context("sha256sum gave no sum")
}

/// The checksum of a file.
pub(super) fn sha256_of(path: &Path) -> Result<String> {
    sha256(&std::fs::read(path)?)
}

/// What a program makes of these bytes.
fn through(command: &mut Command, bytes: &[u8]) -> Result<Vec<u8>> {
    let shown = crate::command::shown(command);
    let mut process = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{shown} could not be started"))?;
    let mut input = process.stdin.take().context("its input is piped")?;
    // It may answer before it has read everything.
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || input.write_all(bytes));
        let output = process.wait_with_output()?;
        writing.join().ok().context("the writer panicked")??;
        ensure!(output.status.success(), "{shown} failed ({})", output.status);
        Ok(output.stdout)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Tar {
        let mut tar = Tar::default();
        tar.file("usr/bin/tool", 0o755, b"#!/bin/sh\n".to_vec());
        tar.folder("var/lib/tool", 0o700, 65532);
        tar.file("etc/passwd", 0o644, vec![b'x'; 600]);
        tar
    }

    #[test]
    fn an_archive_is_what_tar_reads() {
        let archive = sample().bytes(1_700_000_000).unwrap();
        let mut list = Command::new("tar");
        list.args(["--list", "--verbose", "--numeric-owner", "--file", "-"]).env("TZ", "UTC");
        let listed = String::from_utf8(through(&mut list, &archive).unwrap()).unwrap();
        let words: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
        let entries: Vec<(&str, &str, &str)> = words.iter().map(|word| (word[0], word[1], word[5])).collect();
        assert_eq!(
            entries,
            [
                ("drwxr-xr-x", "0/0", "etc/"),
                ("-rw-r--r--", "0/0", "etc/passwd"),
                ("drwxr-xr-x", "0/0", "usr/"),
                ("drwxr-xr-x", "0/0", "usr/bin/"),
                ("-rwxr-xr-x", "0/0", "usr/bin/tool"),
                ("drwxr-xr-x", "0/0", "var/"),
                ("drwxr-xr-x", "0/0", "var/lib/"),
                ("drwx------", "65532/65532", "var/lib/tool/"),
            ]
        );
        assert!(words.iter().all(|word| word[3] == "2023-11-14"), "{listed}");
    }

    #[test]
    fn the_same_contents_are_the_same_bytes() {
        let mut other = Tar::default();
        other.file("etc/passwd", 0o644, vec![b'x'; 600]);
        other.folder("var/lib/tool", 0o700, 65532);
        other.file("usr/bin/tool", 0o755, b"#!/bin/sh\n".to_vec());
        assert_eq!(other.bytes(7).unwrap(), sample().bytes(7).unwrap());
        assert_eq!(gzip(b"abc").unwrap(), gzip(b"abc").unwrap());
    }

    #[test]
    fn a_name_that_does_not_fit_is_an_error() {
        let mut tar = Tar::default();
        tar.file(&"x".repeat(101), 0o644, vec![]);
        assert!(tar.bytes(0).unwrap_err().to_string().contains("does not fit"));
    }

    #[test]
    fn sums_are_those_that_everybody_knows() {
        assert!(sha256(b"abc").unwrap().starts_with("ba7816bf8f01cfea"));
    }
}
