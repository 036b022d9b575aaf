//! The container image, as an OCI archive: one layer with the binary and nothing else that runs.
//!
//! The layout is an open standard and small: blobs that are named by their checksums, and an index
//! that names the first of them.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::binary::Target;
use super::contents::Contents;
use super::tar::{self, Tar};
use super::{Release, put};
use crate::command::{cargo, output};

/// Who runs it: nobody in particular, as the base images of others call this user.
pub(super) const USER: u32 = 65532;

/// Where the binary is in the image.
pub(super) const TOOL: &str = "usr/bin/tenure";

/// Builds `tenure-VERSION-linux-ARCHITECTURE.oci.tar`.
pub(super) fn build(release: &Release, target: &Target, contents: &Contents) -> Result<PathBuf> {
    let created = iso(release)?;
    let layer = layer(release, contents)?;
    let packed = tar::gzip(&layer)?;
    let about = about(release, &created)?;
    let config = json!({
        "architecture": target.architecture,
        "config": {
            "Entrypoint": [format!("/{TOOL}")],
            "Env": ["PATH=/usr/bin", "HOME=/nonexistent", "XDG_STATE_HOME=/var/lib", "XDG_CONFIG_HOME=/etc"],
            "ExposedPorts": { "7420/tcp": {} },
            "Labels": about,
            "StopSignal": "SIGTERM",
            "User": format!("{USER}:{USER}"),
            "Volumes": { "/var/lib/tenure": {} },
            "WorkingDir": "/",
        },
        "created": created,
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
        "os": "linux",
        "rootfs": { "diff_ids": [format!("sha256:{}", tar::sha256(&layer)?)], "type": "layers" },
    });
    let mut archive = Tar::default();
    let config = blob(&mut archive, "application/vnd.oci.image.config.v1+json", text(&config)?)?;
    let layer = blob(&mut archive, "application/vnd.oci.image.layer.v1.tar+gzip", packed)?;
    let manifest = json!({
        "annotations": about,
        "config": config,
        "layers": [layer],
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "schemaVersion": 2,
    });
    let mut manifest = blob(&mut archive, "application/vnd.oci.image.manifest.v1+json", text(&manifest)?)?;
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": release.version });
    manifest["platform"] = json!({ "architecture": target.architecture, "os": "linux" });
    let index = json!({
        "manifests": [manifest],
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "schemaVersion": 2,
    });
    archive.file("index.json", 0o644, text(&index)?);
    archive.file("oci-layout", 0o644, text(&json!({ "imageLayoutVersion": "1.0.0" }))?);
    let name = format!("tenure-{}-linux-{}.oci.tar", release.version, target.architecture);
    let path = release.folder.join(name);
    put(&path, &archive.bytes(release.epoch)?)?;
    Ok(path)
}

/// What is in the image: the binary, its user, and folders for its store, its settings and its
/// sockets.
fn layer(release: &Release, contents: &Contents) -> Result<Vec<u8>> {
    let mut layer = Tar::default();
    layer.file(TOOL, 0o755, contents.binary.clone());
    let user =
        format!("root:x:0:0:root:/:/nonexistent\ntenure:x:{USER}:{USER}:tenure:/nonexistent:/nonexistent\n");
    layer.file("etc/passwd", 0o644, user.into_bytes());
    layer.file("etc/group", 0o644, format!("root:x:0:\ntenure:x:{USER}:\n").into_bytes());
    layer.folder("etc/tenure", 0o755, 0);
    layer.folder("var/lib/tenure", 0o700, USER);
    layer.folder("tmp", 0o1777, 0);
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let text = std::fs::read(licence).with_context(|| format!("{licence} cannot be read"))?;
        layer.file(&format!("usr/share/doc/tenure/{licence}"), 0o644, text);
    }
    layer.bytes(release.epoch)
}

/// Puts a blob into the archive, and describes it.
fn blob(archive: &mut Tar, kind: &str, bytes: Vec<u8>) -> Result<Value> {
    let (sum, size) = (tar::sha256(&bytes)?, bytes.len());
    archive.file(&format!("blobs/sha256/{sum}"), 0o644, bytes);
    Ok(json!({ "mediaType": kind, "digest": format!("sha256:{sum}"), "size": size }))
}

/// JSON with its fields in the order of their names.
fn text(value: &Value) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(value)?)
}

/// What registries show.
fn about(release: &Release, created: &str) -> Result<Value> {
    let package = output(&mut cargo(["metadata", "--no-deps", "--format-version=1"]))?;
    let package: Value = serde_json::from_str(&package)?;
    let tool =
        package["packages"].as_array().and_then(|all| all.iter().find(|one| one["name"] == "tenure-cli"));
    let tool = tool.context("cargo does not know the tool")?;
    Ok(json!({
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.description": tool["description"],
        "org.opencontainers.image.licenses": tool["license"],
        "org.opencontainers.image.source": tool["repository"],
        "org.opencontainers.image.title": "tenure",
        "org.opencontainers.image.version": release.version,
    }))
}

fn iso(release: &Release) -> Result<String> {
    let mut command = std::process::Command::new("date");
    let date =
        output(command.args(["--utc", "+%Y-%m-%dT%H:%M:%SZ"]).arg(format!("--date=@{}", release.epoch)))?;
    Ok(date.trim().to_owned())
}
