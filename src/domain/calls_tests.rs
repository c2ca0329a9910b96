//! Tests of `calls`.
