//! What the interface description says about problems.

use std::collections::BTreeMap;

use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::{AllOfBuilder, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr, Response, ResponseBuilder};
use utoipa::{PartialSchema, ToSchema};

use super::Kind;
use crate::form::Vote;

/// Any call can have these, the probes among them.
pub(crate) const OF_PROBE: &[Kind] = &[Kind::WebPage, Kind::Internal];

/// And any other these.
pub(crate) const ANY: &[Kind] = &[Kind::WebPage, Kind::Internal, Kind::Unauthenticated];

/// And any that not every caller may make these.
pub(crate) const OF_RIGHTS: &[Kind] = &[Kind::Forbidden];

/// And any that has a body these.
pub(crate) const OF_BODY: &[Kind] = &[Kind::BadRequest, Kind::SlowRequest, Kind::TooLarge, Kind::NotJson];

/// Says which problems a call can have, for its description.
macro_rules! problems {
    ($name:ident: $($kinds:expr),+) => {
        struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses() -> std::collections::BTreeMap<
                String,
                utoipa::openapi::RefOr<utoipa::openapi::Response>,
            > {
                $crate::problem::responses(&[$($kinds),+].concat())
            }
        }
    };
}
pub(crate) use problems;

/// A problem as in RFC 9457. The additional fields depend on the type.
#[derive(ToSchema)]
#[schema(as = Problem)]
#[expect(dead_code, reason = "it says what the JSON looks like")]
pub(crate) struct Body {
    /// Stable, unlike the wording of `detail`.
    r#type: Kind,
    title: String,
    status: u16,
    /// What happened, and what to do.
    detail: String,
    /// The label of the lock's holder.
    label: Option<String>,
    /// The caller itself holds the lock, acquired with the key it sent.
    yours: Option<bool>,
    /// An id for the holder.
    holder: Option<String>,
    /// The number of waiters ahead of this caller.
    ahead: Option<u64>,
    /// The number of waiters in total.
    waiters: Option<u64>,
    /// When to retry.
    retry_after_ms: Option<u64>,
    /// The kind of lock requested: `plain` or `reentrant`.
    asked: Option<String>,
    /// What the nodes have under its name: `plain`, `reentrant`, or `foreign`, which is not a lock.
    found: Option<String>,
    /// Time until the lock expires.
    frees_within_ms: Option<u64>,
    votes: Option<Vec<Vote>>,
}

impl PartialSchema for Kind {
    fn schema() -> RefOr<utoipa::openapi::Schema> {
        kinds(Self::ALL).into()
    }
}

impl ToSchema for Kind {
    fn name() -> std::borrow::Cow<'static, str> {
        "ProblemType".into()
    }
}

/// The answers that have these problems: one a status.
pub(crate) fn responses(kinds: &[Kind]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<String, Vec<Kind>> = BTreeMap::new();
    for kind in kinds {
        by_status.entry(kind.status().as_str().to_owned()).or_default().push(*kind);
    }
    by_status.into_iter().map(|(status, kinds)| (status, response(&kinds).into())).collect()
}

fn response(kinds: &[Kind]) -> Response {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    let only = ObjectBuilder::new().property("type", self::kinds(kinds));
    let body = AllOfBuilder::new().item(Ref::from_schema_name("Problem")).item(only);
    let response = ResponseBuilder::new().description(names.join(", "));
    let response =
        response.content("application/problem+json", ContentBuilder::new().schema(Some(body)).build());
    if !kinds.iter().any(|kind| kind.may_be_retried()) {
        return response.build();
    }
    let seconds = ObjectBuilder::new().schema_type(SchemaType::new(Type::Integer)).minimum(Some(0));
    let header = HeaderBuilder::new().schema(Some(seconds)).description(Some("Seconds"));
    response.header("Retry-After", header.build()).build()
}

fn kinds(kinds: &[Kind]) -> ObjectBuilder {
    let types = kinds.iter().map(|kind| kind.urn());
    ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).enum_values(Some(types))
}
