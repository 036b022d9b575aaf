//! `GET /openapi.json`: the calls, for programs.

use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::problem::{self, ANY, problems};

problems!(Problems: ANY);

/// What is not about one call.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tenure lock service",
        description = "Locks for programs in any language. Connection-level errors have no body: 400 for \
                       malformed HTTP, 431 for a request head over 16 KiB. An unknown path gets \
                       `urn:tenure:no-such-call` (404), an unsupported method `urn:tenure:wrong-method` \
                       (405).",
    ),
    tags(
        (name = "locks", description = "Acquire, extend, release"),
        (name = "look", description = "Read what the nodes say, without changing anything"),
        (name = "operation", description = "The state of this instance"),
    ),
    components(schemas(problem::Body)),
    modifiers(&Callers),
    security((), ("caller" = [])),
)]
pub(crate) struct Description;

/// How a caller shows who it is, where the service has a list of callers.
struct Callers;

impl Modify for Callers {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer);
        let token =
            token.description(Some("The caller's token; required if the service has a list of callers"));
        let components = description.components.get_or_insert_default();
        components.add_security_scheme("caller", SecurityScheme::Http(token.build()));
    }
}

static TEXT: LazyLock<String> = LazyLock::new(|| {
    let (_, description) = crate::routes().split_for_parts();
    description.to_pretty_json().expect("it is made of texts and numbers")
});

/// This OpenAPI document.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "operation",
    responses((status = 200, description = "An OpenAPI document", content_type = "application/json", body = Object), Problems),
)]
pub(crate) async fn call() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str())
}
