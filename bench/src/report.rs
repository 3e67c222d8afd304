//! Turns figures into a table for people and JSON for machines.

use serde_json::{Value, json};

/// What a figure must be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// Ours is at most so many times the reference.
    RatioAtMost(f64),
    /// Ours is less than so many times the reference.
    RatioBelow(f64),
    /// Ours is at least so many times the reference.
    RatioAtLeast(f64),
    /// Ours is more than so many times the reference.
    RatioAbove(f64),
    /// Ours is below this, whatever others do.
    Below(f64),
    /// Ours is not above this, whatever others do.
    AtMost(f64),
    /// Ours is not below this, whatever others do.
    AtLeast(f64),
    /// Nothing is promised; it helps to read the rest.
    Information,
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    pub(crate) reference: Option<f64>,
    pub(crate) bound: Bound,
}

impl Row {
    /// A comparison that could not be made: it is not reached, so that a check fails which lacks what it compares with.
    pub(crate) const fn missing(name: String, unit: &'static str) -> Self {
        Self { name, unit, ours: f64::NAN, reference: None, bound: Bound::AtLeast(0.0) }
    }

    fn ratio(&self) -> Option<f64> {
        self.reference.map(|reference| self.ours / reference)
    }

    /// Whether the bound is kept; nothing where there is none.
    pub(crate) fn reached(&self) -> Option<bool> {
        let ratio = self.ratio().unwrap_or(f64::NAN);
        match self.bound {
            Bound::RatioAtMost(most) => Some(ratio <= most),
            Bound::RatioBelow(end) => Some(ratio < end),
            Bound::RatioAtLeast(least) => Some(ratio >= least),
            Bound::RatioAbove(end) => Some(ratio > end),
            Bound::Below(end) => Some(self.ours < end),
            Bound::AtMost(most) => Some(self.ours <= most),
            Bound::AtLeast(least) => Some(self.ours >= least),
            Bound::Information => None,
        }
    }

    fn bound_text(&self) -> String {
        match self.bound {
            Bound::RatioAtMost(most) => format!("<= {most} x"),
            Bound::RatioBelow(end) => format!("< {end} x"),
            Bound::RatioAtLeast(least) => format!(">= {least} x"),
            Bound::RatioAbove(end) => format!("> {end} x"),
            Bound::Below(end) => format!("< {end} {}", self.unit),
            Bound::AtMost(most) => format!("<= {most} {}", self.unit),
            Bound::AtLeast(least) => format!(">= {least} {}", self.unit),
            Bound::Information => String::new(),
        }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "unit": self.unit, "ours": self.ours, "reference": self.reference,
            "ratio": self.ratio(), "bound": self.bound_text(), "reached": self.reached(),
        })
    }
}

/// Prints the table.
pub(crate) fn table(machine: &str, rows: &[Row], notes: &[String]) {
    println!("{machine}\n");
    println!("{:<58} {:>16} {:>16} {:>8}  {:<11} reached", "", "ours", "reference", "ratio", "bound");
    for row in rows {
        let reference = row.reference.map_or_else(String::new, |value| figure(value, row.unit));
        let ratio = row.ratio().map_or_else(String::new, |ratio| format!("{ratio:.3}"));
        let reached = match row.reached() {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        let (ours, bound) = (figure(row.ours, row.unit), row.bound_text());
        println!("{:<58} {ours:>16} {reference:>16} {ratio:>8}  {bound:<11} {reached}", row.name);
    }
    if !notes.is_empty() {
        println!();
    }
    for note in notes {
        println!("- {note}");
    }
}

/// Prints the same as JSON.
pub(crate) fn json(machine: &str, rows: &[Row], notes: &[String]) {
    let rows: Vec<Value> = rows.iter().map(Row::json).collect();
    println!("{:#}", json!({ "machine": machine, "rows": rows, "notes": notes }));
}

fn figure(value: f64, unit: &str) -> String {
    let digits = if value >= 1000.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        3
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_compared_is_not_reached() {
        assert_eq!(Row::missing("a peer".into(), "MB/s").reached(), Some(false));
    }
}
