//! Answers that more than one part of the admin port gives. Pure.

use super::route::Miss;
use crate::net::front::Response;

/// A path or method that is not there.
pub(super) fn missed(miss: Miss) -> Response {
    match miss {
        Miss::NotFound(message) => Response::error(404, "not_found", message),
        Miss::Method(allow) => {
            let message = "this path takes other methods";
            Response::error(405, "method_not_allowed", message).with("Allow", allow)
        }
    }
}

/// The headers that every answer of this port carries: nothing of it is kept, framed or run.
pub(super) fn secured(response: Response) -> Response {
    response
        .with(
            "Content-Security-Policy",
            "default-src 'none'; frame-ancestors 'none'",
        )
        .with("Referrer-Policy", "no-referrer")
        .with("X-Content-Type-Options", "nosniff")
        .with("Cache-Control", "no-store")
}
