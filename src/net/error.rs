//! Why an outbound request did not bring an answer, by what the caller can do about it.

use std::fmt;

/// A failed request. Its text names what was attempted on which URL (without query) and never
/// holds a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpError {
    /// The request cannot be sent as it is: fix what built it.
    Request(String),
    /// No connection, or it broke before the whole answer was there: a later try may succeed.
    Connect(String),
    /// The deadline passed.
    Timeout(String),
    /// The answer's head or framing is larger than allowed or not HTTP.
    Protocol(String),
    /// No trusted TLS connection.
    Tls(TlsTrouble, String),
    /// The shield refuses every address of the host; nothing was sent.
    Shield(String),
    /// The caller gave the request up.
    Cancelled,
}

/// What is wrong with a TLS connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsTrouble {
    /// The certificate is for another name.
    WrongName,
    /// The certificate has expired or is not valid yet.
    Expired,
    /// No trusted authority has signed the certificate.
    UnknownAuthority,
    /// No roots to trust can be read.
    NoRoots,
    /// The handshake failed otherwise.
    Handshake,
}

impl TlsTrouble {
    /// A short name, the same in every text.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            TlsTrouble::WrongName => "certificate for another name",
            TlsTrouble::Expired => "certificate expired or not valid yet",
            TlsTrouble::UnknownAuthority => "certificate of an unknown authority",
            TlsTrouble::NoRoots => "no trusted roots",
            TlsTrouble::Handshake => "tls handshake failed",
        }
    }
}

impl HttpError {
    /// The same error with what was attempted in front.
    #[must_use]
    pub fn during(self, attempt: &str) -> HttpError {
        let told = |detail: String| format!("{attempt}: {detail}");
        match self {
            HttpError::Request(detail) => HttpError::Request(told(detail)),
            HttpError::Connect(detail) => HttpError::Connect(told(detail)),
            HttpError::Timeout(detail) => HttpError::Timeout(told(detail)),
            HttpError::Protocol(detail) => HttpError::Protocol(told(detail)),
            HttpError::Tls(trouble, detail) => HttpError::Tls(trouble, told(detail)),
            HttpError::Shield(detail) => HttpError::Shield(told(detail)),
            HttpError::Cancelled => HttpError::Cancelled,
        }
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpError::Request(detail)
            | HttpError::Connect(detail)
            | HttpError::Timeout(detail)
            | HttpError::Protocol(detail)
            | HttpError::Tls(_, detail)
            | HttpError::Shield(detail) => f.write_str(detail),
            HttpError::Cancelled => f.write_str("given up by the caller"),
        }
    }
}

impl std::error::Error for HttpError {}
