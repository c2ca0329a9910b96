//! What agent brains can do besides talking: the list of kinds.

pub mod kinds;
