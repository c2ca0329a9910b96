//! Tests of `gate`.
