//! What is done around every call, in this order. One layer and not one each: every layer clones
//! the services below it for every call.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument;

use crate::grant::{self, Received};
use crate::log::Call;
use crate::problem::Problem;
use crate::turns::Turns;
use crate::{Service, caller, drain, origin};

pub(crate) async fn layer(State(service): State<Arc<Service>>, mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Received(Instant::now()));
    let mut call = Call::begin(Arc::clone(&service), &mut request);
    let (version, span) = (request.version(), call.span(&request));
    let admitted = match admit(&service, &mut request) {
        // Before anything is read of it.
        Ok(()) if Turns::are_for(&request) => service.turns.room().await,
        admitted => admitted,
    };
    let mut response = match admitted {
        Ok(()) => next.run(request).instrument(span.clone()).await,
        Err(problem) => problem.into_response(),
    };
    drain::tell(&service, version, &mut response);
    call.answer(&span, &mut response);
    grant::hand_over(&mut response);
    response
}

fn admit(service: &Service, request: &mut Request) -> Result<(), Problem> {
    origin::check(&service.hosts, request)?;
    caller::identify(service, request)
}
