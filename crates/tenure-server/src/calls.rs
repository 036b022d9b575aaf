//! The calls, one file each; here what they have in common.

pub(crate) mod acquire;
pub(crate) mod extend;
pub(crate) mod health;
pub(crate) mod look;
pub(crate) mod release;

use axum::http::Uri;
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use tenure::Handover;

use crate::Service;
use crate::problem::{Kind, Problem};

/// How many leases one call may be about.
const MANY: usize = 1_000;

/// A lease that the client has.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseRef {
    name: String,
    token: String,
}

/// Several of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseRefs {
    leases: Vec<LeaseRef>,
}

impl LeaseRef {
    fn handover(&self, service: &Service) -> Result<Handover, Problem> {
        let token = service.keys.open(&self.name, &self.token)?;
        Ok(token.handover(&self.name, token.ttl()))
    }
}

impl LeaseRefs {
    fn checked(self) -> Result<Vec<LeaseRef>, Problem> {
        match self.leases.len() {
            ..=MANY => Ok(self.leases),
            count => Err(Problem::new(
                Kind::OutOfBounds,
                format!("leases: {count} are too many; send at most {MANY} at once"),
            )),
        }
    }
}

/// What becomes of each, in the order in which they were sent. All are asked for at once, so they
/// leave for the nodes together.
async fn results(each: impl IntoIterator<Item: Future<Output = Result<Value, Problem>>>) -> Value {
    let told = |result: Result<Value, Problem>| match result {
        Ok(value) => value,
        Err(problem) => json!({ "problem": problem.to_json() }),
    };
    json!({ "results": join_all(each).await.into_iter().map(told).collect::<Vec<_>>() })
}

pub(crate) async fn no_such_call(uri: Uri) -> Problem {
    Problem::new(Kind::NoSuchCall, format!("there is no call {:?}", uri.path()))
}

pub(crate) async fn wrong_method(uri: Uri) -> Problem {
    Problem::new(Kind::WrongMethod, format!("{:?} is not called with this method", uri.path()))
}
