//! The calls, one file each; here what they have in common.

pub(crate) mod acquire;
pub(crate) mod events;
pub(crate) mod extend;
pub(crate) mod force_release;
pub(crate) mod health;
pub(crate) mod hold;
pub(crate) mod log_in;
pub(crate) mod log_out;
pub(crate) mod look;
pub(crate) mod me;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod release;
pub(crate) mod watch;

use axum::http::Uri;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tenure::Handover;
use utoipa::ToSchema;

use crate::Service;
use crate::caller::Caller;
use crate::names::Names;
use crate::problem::{self, Kind, Problem};

/// The problems of a lease that a client has.
const OF_LEASE: &[Kind] =
    &[Kind::BadToken, Kind::UnknownKey, Kind::OtherLock, Kind::NotHeld, Kind::Unavailable, Kind::Draining];

/// How many leases one call may be about.
const MANY: usize = 1_000;

/// A lease that the client holds.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseRef {
    /// The lock's name, as in the lease.
    name: Option<String>,
    /// Names that are locked together, instead of `name`.
    names: Option<Vec<String>>,
    /// The token from the latest answer about this lease.
    token: String,
}

/// Several leases.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseRefs {
    #[schema(max_items = 1000)]
    leases: Vec<LeaseRef>,
}

impl LeaseRef {
    /// The lease, if this caller may do something with it: whoever has its token and may lock its
    /// name.
    fn open(self, service: &Service, caller: &Caller) -> Result<(Names, Handover), Problem> {
        let names = Names::of(self.name, self.names)?;
        names.may_be_locked_by(caller)?;
        let token = service.keys.open(&names.sealed(), &self.token)?;
        let handover = names.handover(&token);
        Ok((names, handover))
    }
}

impl LeaseRefs {
    fn checked(self) -> Result<Vec<LeaseRef>, Problem> {
        match self.leases.len() {
            ..=MANY => Ok(self.leases),
            count => Err(Problem::new(
                Kind::OutOfBounds,
                format!("leases: {count} is too many; send at most {MANY} at once"),
            )),
        }
    }
}

/// The results, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Results<T> {
    results: Vec<Outcome<T>>,
}

/// The result for one, or the problem.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum Outcome<T> {
    Done(T),
    Refused {
        #[schema(value_type = problem::Body)]
        problem: Value,
    },
}

/// All are asked for at once, so they leave for the nodes together.
async fn results<T>(each: impl IntoIterator<Item: Future<Output = Result<T, Problem>>>) -> Results<T> {
    let outcome = |result: Result<T, Problem>| match result {
        Ok(done) => Outcome::Done(done),
        Err(problem) => Outcome::Refused { problem: problem.to_json() },
    };
    Results { results: join_all(each).await.into_iter().map(outcome).collect() }
}

pub(crate) async fn no_such_call(uri: Uri) -> Problem {
    Problem::new(Kind::NoSuchCall, format!("no such call: {:?}", uri.path()))
}

pub(crate) async fn wrong_method(uri: Uri) -> Problem {
    Problem::new(Kind::WrongMethod, format!("{:?} does not support this method", uri.path()))
}
