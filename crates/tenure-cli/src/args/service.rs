//! What was typed for the lock service and its callers.

use std::path::PathBuf;

use clap::{Subcommand, ValueHint};
use tenure_server::Verb;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tenure serve
  curl -H 'Content-Type: application/json' -d '{\"name\": \"import\", \"ttl_ms\": 30000}' \\
       http://127.0.0.1:7420/v1/acquire
  tenure serve --listen 0.0.0.0:7420 --callers callers --tls-certificate cert.pem --tls-key key.pem

Any instance serves the next call of a lease, if all have the same nodes and the same lease key. On
SIGTERM or SIGINT it takes no new work, tells whoever waits, releases nothing, and ends. On SIGHUP it
reads callers, certificates and lease keys again. [serve] in tenure.toml has the same settings, and
more: docs/reference/service.md.")]
pub(crate) struct ServeArgs {
    /// Where to listen: an address and a port, or `unix:PATH`; may be repeated. An address that
    /// other machines can reach needs callers, and TLS [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Vec<String>,
    /// The file with the keys that lease tokens are sealed with: 64 hexadecimal digits a line, the
    /// first seals [default: one that is made for this machine]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) lease_key: Option<PathBuf>,
    /// The file that lists who may call, made with `tenure token new`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) callers: Option<PathBuf>,
    /// The file with the certificate of the service, and those up to the root (PEM)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// The file with the key of the certificate (PEM)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) tls_key: Option<PathBuf>,
    /// The file with the certificates of those who sign clients' certificates (PEM)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) client_ca: Option<PathBuf>,
    /// A proxy before it does TLS, so other machines may be answered without
    #[arg(long)]
    pub(crate) behind_tls_proxy: bool,
    /// A name by which it is called, beside its addresses and those in its certificate; may be
    /// repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// Write a line of JSON for each call to this file, or to `stderr` [default: none]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) access_log: Option<PathBuf>,
    /// Where it is written who took a lock from its holder: a file, or `stderr` [default: stderr]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) audit_log: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token for a caller, and print it once
    New(NewTokenArgs),
    /// List the callers in a file
    Ls(TokenFileArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tenure token new --name billing --may read,lock --prefix billing/ --until 90d --file callers
  tenure token new --name web-1 --certificate web-1.example --may lock --file callers

The token is printed, and kept nowhere: the file has its SHA-256. A service that runs reads the file
again on SIGHUP.")]
pub(crate) struct NewTokenArgs {
    /// How the caller is called, in logs and messages
    #[arg(long)]
    pub(crate) name: String,
    /// What it may do: read, lock, force, metrics
    #[arg(long, value_name = "VERB,...", value_delimiter = ',', required = true)]
    pub(crate) may: Vec<Verb>,
    /// Until when: a duration from now, the last day (UTC), or a time [default: without an end]
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<String>,
    /// It shows a client certificate of this name instead of a token
    #[arg(long, value_name = "NAME")]
    pub(crate) certificate: Option<String>,
    /// Put the caller at the end of this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tenure token ls --file callers")]
pub(crate) struct TokenFileArgs {
    /// The file [default: `callers` of [serve] in tenure.toml]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
}
