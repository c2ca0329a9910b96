//! Why the front itself turns a request away. Pure data; every refusal ends its connection.

use super::response::Response;

/// A request that no owner gets to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not HTTP as this front takes it; says which rule was broken.
    BadRequest(&'static str),
    /// Head or body did not come in time.
    Timeout,
    /// The head has too many bytes or fields.
    HeadersTooLarge,
    /// The body is above what the owner takes.
    TooLarge,
    /// No room for another connection; says which bound was met.
    Unavailable(&'static str),
    /// The owner failed on this request (a fault of ours).
    Fault,
}

/// Seconds after which a client that found no room may try again.
const RETRY_AFTER: &str = "2";

impl Refusal {
    /// The answer: status, code and sentence.
    #[must_use]
    pub fn response(self) -> Response {
        let (status, code, message) = match self {
            Refusal::BadRequest(message) => (400, "bad_request", message),
            Refusal::Timeout => (408, "timeout", "the request did not arrive in time"),
            Refusal::HeadersTooLarge => (
                431,
                "headers_too_large",
                "the request's head has too many bytes or fields",
            ),
            Refusal::TooLarge => (
                413,
                "too_large",
                "the request's body is larger than what is accepted here",
            ),
            Refusal::Unavailable(message) => (503, "unavailable", message),
            Refusal::Fault => (500, "unavailable", "the request could not be answered"),
        };
        let response = Response::error(status, code, message);
        match self {
            Refusal::Unavailable(_) => response.with("Retry-After", RETRY_AFTER),
            _ => response,
        }
    }
}
