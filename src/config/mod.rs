//! The configuration file: read with positions, checked whole, turned into a [`plan::Plan`].

pub mod check;

pub mod docs;
pub mod env_file;
pub mod folders;
pub mod json;
pub mod missing;
pub mod plan;
pub mod problem;
pub mod schema;
pub mod secrets;
pub mod skills;

pub mod values;
