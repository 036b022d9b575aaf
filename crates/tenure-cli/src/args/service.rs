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

Calls for a lease can go to any instance, as long as all have the same nodes and lease key. On
SIGTERM or SIGINT it accepts no new work, notifies waiting clients, releases nothing, and exits. On
SIGHUP it reloads callers, certificates and lease keys. [serve] in tenure.toml has these settings and
more: docs/reference/service.md.")]
pub(crate) struct ServeArgs {
    /// Address and port to listen on, or `unix:PATH`; repeatable. An address that other machines
    /// can reach requires callers and TLS [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Vec<String>,
    /// File with the keys that seal lease tokens: 64 hexadecimal digits per line, the first one
    /// seals [default: a key created for this machine]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) lease_key: Option<PathBuf>,
    /// File that lists who may call, created with `tenure token new`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) callers: Option<PathBuf>,
    /// File with the service's certificate chain (PEM)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// File with the certificate's private key (PEM)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) tls_key: Option<PathBuf>,
    /// File with the CA certificates that sign client certificates (PEM)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) client_ca: Option<PathBuf>,
    /// A proxy in front terminates TLS, so plain connections from other machines are allowed
    #[arg(long)]
    pub(crate) behind_tls_proxy: bool,
    /// Host name that clients use, besides its addresses and the names in its certificate;
    /// repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// Log each call as a line of JSON to this file, or to `stderr` [default: none]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) access_log: Option<PathBuf>,
    /// Log forced releases to this file, or to `stderr` [default: stderr]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) audit_log: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token for a caller and print it, once
    New(NewTokenArgs),
    /// List the callers in a file
    Ls(TokenFileArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tenure token new --name billing --may read,lock --prefix billing/ --until 90d --file callers
  tenure token new --name web-1 --certificate web-1.example --may lock --file callers

The token is printed and stored nowhere: the file has only its SHA-256. A running service reloads the
file on SIGHUP.")]
pub(crate) struct NewTokenArgs {
    /// Name of the caller in logs and messages
    #[arg(long)]
    pub(crate) name: String,
    /// What it may do: read, lock, force, metrics
    #[arg(long, value_name = "VERB,...", value_delimiter = ',', required = true)]
    pub(crate) may: Vec<Verb>,
    /// Expiry: a duration from now, a last day (UTC), or a time [default: never]
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<String>,
    /// Identify the caller by a client certificate with this name instead of a token
    #[arg(long, value_name = "NAME")]
    pub(crate) certificate: Option<String>,
    /// Append the caller to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tenure token ls --file callers")]
pub(crate) struct TokenFileArgs {
    /// File to read [default: `callers` under [serve] in tenure.toml]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
}
