//! The configuration file: read with positions, checked whole, turned into a [`plan::Plan`].

pub mod plan;
