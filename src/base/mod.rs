//! Words that any program could use: time, threads, secrets, text. Knows nothing of Korvun.

pub mod backoff;
pub mod clock;
pub mod json;
pub mod random;
pub mod secret;
pub mod sync;
pub mod text;
