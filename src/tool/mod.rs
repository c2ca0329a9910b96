//! What agent brains can do besides talking: one trait, and the list of kinds.

pub mod kinds;
pub mod port;
