//! Rows of the bench's table: a figure, its bound, and whether it holds.

use std::time::Duration;

/// What a figure must not pass.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// At most so much.
    Most(f64),
    /// At least so much.
    Least(f64),
    /// Only told.
    Told,
}

/// The table.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<(String, String, f64, Bound)>,
}

impl Table {
    /// Adds a row.
    pub fn row(&mut self, name: &str, value: f64, unit: &str, bound: Bound) {
        println!("  {name}: {} {unit}", short(value));
        self.rows
            .push((name.to_owned(), unit.to_owned(), value, bound));
    }

    /// Prints it; whether every bound holds.
    pub fn print(&self) -> bool {
        let mut holds = true;
        println!(
            "\n{:<58} {:>12} {:>14}  {:<6} unit",
            "figure", "measured", "bound", ""
        );
        for (name, unit, value, bound) in &self.rows {
            let (limit, verdict) = match bound {
                Bound::Most(most) => (format!("<= {}", short(*most)), value <= most),
                Bound::Least(least) => (format!(">= {}", short(*least)), value >= least),
                Bound::Told => ("-".to_owned(), true),
            };
            let word = match (bound, verdict) {
                (Bound::Told, _) => "",
                (_, true) => "pass",
                (_, false) => "MISS",
            };
            holds &= verdict;
            println!(
                "{name:<58} {:>12} {limit:>14}  {word:<6} {unit}",
                short(*value)
            );
        }
        holds
    }
}

fn short(value: f64) -> String {
    if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    }
}

/// The value below which a share `rank` (0 to 1) of the samples lies, in milliseconds.
pub fn percentile(samples: &[Duration], rank: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    let at = (last as f64 * rank).round() as usize;
    sorted
        .get(at)
        .map_or(f64::NAN, |value| value.as_secs_f64() * 1000.0)
}
