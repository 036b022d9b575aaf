//! A service that gives locks, instead of nodes: what `--service` means.
//!
//! Its validity is counted on our own clock from before a request was sent (`told.rs`), it is
//! renewed by extensions (`held.rs`), and whatever goes wrong becomes the same words and exit codes
//! as with nodes (`trouble.rs`).

mod acquire;
mod address;
mod exchange;
mod held;
mod tls;
mod told;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

pub(crate) use self::acquire::Asking;
pub(crate) use self::address::Address;
pub(crate) use self::exchange::Messages;
pub(crate) use self::held::Held;
pub(crate) use self::told::Told;
pub(crate) use self::trouble::Trouble;
use crate::ballot::Ballot;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::report::{List, Report};
use crate::settings::ServiceSettings;

/// How long an answer may take that waits for nobody: many node timeouts.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How long a list may take: nodes that remember many fences are walked through slowly.
const LIST_LIMIT: Duration = Duration::from_secs(120);

/// A service, and who we are to it.
#[derive(Clone)]
pub(crate) struct Service(Arc<Parts>);

struct Parts {
    address: Address,
    /// What the caller is known by.
    caller: Option<String>,
    tls: Option<tokio_rustls::TlsConnector>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Service").field(&self.0.address).finish()
    }
}

impl Service {
    /// Nothing is asked yet.
    pub(crate) fn connect(settings: &ServiceSettings) -> Result<Self, Failure> {
        let address = settings.address.value.clone();
        let tls = if address.is_encrypted() { Some(tls::connector(settings.ca.as_deref())?) } else { None };
        Ok(Self(Arc::new(Parts { address, caller: settings.token.clone(), tls })))
    }

    pub(crate) async fn extend(&self, names: &[String], token: &str) -> Result<Told, Trouble> {
        self.extend_within(names, token, ANSWER_LIMIT).await
    }

    async fn extend_within(&self, names: &[String], token: &str, limit: Duration) -> Result<Told, Trouble> {
        let answer = self.post("/v1/extend", &lease(names, token), limit).await?;
        Told::read(answer.sent, &answer.body).ok_or_else(|| Trouble::not_understood(&self.0.address))
    }

    pub(crate) async fn release(
        &self,
        names: &[String],
        token: &str,
        early: bool,
    ) -> Result<Ballot, Failure> {
        let mut body = lease(names, token);
        if early {
            body["early"] = json!(true);
        }
        let answer = self.post("/v1/release", &body, ANSWER_LIMIT).await;
        let answer = answer.map_err(|trouble| trouble.failure(Some(&names.join(", ")), Exit::HELD))?;
        Ok(Ballot::read(&answer.body["votes"]))
    }

    pub(crate) async fn inspect(&self, name: &str) -> Result<Report, Failure> {
        self.holder(name).await.map(|(report, _)| report)
    }

    /// The same, and what the service calls the holder.
    pub(crate) async fn holder(&self, name: &str) -> Result<(Report, Option<String>), Failure> {
        let path = format!("/v1/lock?name={}", escaped(name));
        let told = self.get(&path).await.map_err(|trouble| trouble.failure(Some(name), Exit::HELD))?;
        Ok((Report::read(&told), told["holder"].as_str().map(str::to_owned)))
    }

    /// Takes a lock from this holder, and from no later one.
    pub(crate) async fn release_by_force(
        &self,
        name: &str,
        holder: &str,
        reason: &str,
    ) -> Result<Ballot, Failure> {
        let body = json!({ "name": name, "holder": holder, "reason": reason });
        let answer = self.post("/v1/force-release", &body, ANSWER_LIMIT).await;
        let answer = answer.map_err(|trouble| trouble.failure(Some(name), Exit::HELD))?;
        Ok(Ballot::read(&answer.body["votes"]))
    }

    pub(crate) async fn list(&self) -> Result<List, Failure> {
        let told = self
            .get_within("/v1/locks", LIST_LIMIT)
            .await
            .map_err(|trouble| trouble.failure(None, Exit::HELD))?;
        Ok(List::read(&told))
    }
}

/// A lease, as the service knows it.
fn lease(names: &[String], token: &str) -> Value {
    match names {
        [name] => json!({ "name": name, "token": token }),
        names => json!({ "names": names, "token": token }),
    }
}

/// As a value in a query.
pub(crate) fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
        escaped
    })
}

/// A part of an answer that has to be there.
fn number(value: &Value) -> Option<u64> {
    value.as_u64()
}
