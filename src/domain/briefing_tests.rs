//! Tests of `briefing`.
