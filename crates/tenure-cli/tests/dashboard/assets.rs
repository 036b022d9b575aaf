//! What the dashboard weighs, and that third parties' files are what they were.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const UI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tenure-server/ui");

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn all_assets_together_are_at_most_60_kb_compressed() {
    let mut sum = 0;
    for file in files(Path::new(UI)) {
        let gzip = Command::new("gzip").args(["-9", "--stdout"]).arg(&file).stderr(Stdio::inherit()).output();
        sum += gzip.unwrap().stdout.len();
    }
    assert!((20_000..=60_000).contains(&sum), "{sum} bytes");
}

#[test]
fn every_file_is_served_but_notes() {
    let table = std::fs::read_to_string(format!("{UI}/../src/ui/asset.rs")).unwrap();
    for file in files(Path::new(UI)) {
        let path = file.strip_prefix(UI).unwrap().to_str().unwrap().to_owned();
        let is_note = path.ends_with("README.md") || path.ends_with("SHA256SUMS");
        assert_eq!(table.contains(&format!("\"{path}\"")), !is_note, "{path}");
    }
}

#[test]
fn the_modules_of_others_match_their_checksums() {
    let mut check = Command::new("sha256sum");
    let done = check
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(format!("{UI}/vendor"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    let sums = std::fs::read_to_string(format!("{UI}/vendor/SHA256SUMS")).unwrap();
    for file in files(&Path::new(UI).join("vendor")) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(
            ["README.md", "SHA256SUMS"].contains(&name.as_str()) || sums.contains(&name),
            "{name} has no sum"
        );
    }
}
