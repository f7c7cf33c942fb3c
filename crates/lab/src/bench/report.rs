//! What a bench prints: parameters, tables, and last one JSON line. Helpers for medians with their spread and for latencies.

use std::io::{self, Write};

use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::machine;

/// What a bench found.
#[derive(Debug)]
pub struct Report {
    /// The bench.
    pub name: &'static str,
    /// What it was asked for.
    pub parameters: Map<String, Value>,
    /// For people.
    pub tables: Vec<Table>,
    /// For programs.
    pub result: Map<String, Value>,
    /// Only the result, as one bare line: what other programs' runners read.
    pub bare: bool,
    /// Only the JSON line, but all of it.
    pub only_line: bool,
}

/// Rows under a head.
#[derive(Debug)]
pub struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Report {
    /// An empty report.
    pub fn new(name: &'static str) -> Report {
        Report { name, parameters: Map::new(), tables: Vec::new(), result: Map::new(), bare: false, only_line: false }
    }

    /// Notes a parameter.
    pub fn parameter(&mut self, name: &str, value: impl Serialize) {
        self.parameters.insert(name.into(), json!(value));
    }

    /// Notes a result.
    pub fn set(&mut self, name: &str, value: impl Serialize) {
        self.result.insert(name.into(), json!(value));
    }

    /// Parameters, tables, the JSON line.
    pub fn print(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.bare {
            return writeln!(out, "{}", Value::Object(self.result.clone()));
        }
        if !self.only_line {
            let parameters = self.parameters.iter().map(|(name, value)| format!("{name} {}", plain(value)));
            writeln!(out, "bench {}: {}", self.name, parameters.collect::<Vec<_>>().join(", "))?;
            for table in &self.tables {
                table.print(&mut out)?;
            }
            writeln!(out)?;
        }
        let line = json!({
            "bench": self.name,
            "parameters": self.parameters,
            "machine": machine::describe(),
            "result": self.result,
        });
        writeln!(out, "{line}")
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join("/"),
        other => other.to_string(),
    }
}

impl Table {
    /// A table without rows.
    pub fn new(title: impl Into<String>, head: &[&str]) -> Table {
        Table { title: title.into(), head: head.iter().map(|h| (*h).to_string()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.head.len(), "a row of {:?} has a cell for each column", self.title);
        self.rows.push(cells);
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let all = || std::iter::once(&self.head).chain(&self.rows);
        let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        writeln!(out, "\n{}", self.title)?;
        for (line, row) in all().enumerate() {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            writeln!(out, "| {} |", cells.collect::<Vec<_>>().join(" | "))?;
            if line == 0 {
                let rule = widths.iter().enumerate().map(|(column, width)| {
                    let dashes = "-".repeat(width + 1);
                    if column == 0 { format!("{dashes}-") } else { format!("{dashes}:") }
                });
                writeln!(out, "|{}|", rule.collect::<Vec<_>>().join("|"))?;
            }
        }
        Ok(())
    }
}

/// The middle of some runs, and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of these; of none it is not a number.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() {
            0 => f64::NAN,
            count if count % 2 == 1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        let end = |value: Option<&f64>| value.copied().unwrap_or(f64::NAN);
        Spread { median, min: end(values.first()), max: end(values.last()) }
    }

    /// `median (min-max)`.
    pub fn text(&self) -> String {
        if self.min == self.max {
            figure(self.median)
        } else {
            format!("{} ({}-{})", figure(self.median), figure(self.min), figure(self.max))
        }
    }
}

/// Three digits that count, thousands told apart.
pub fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    let size = value.abs();
    if size < 10.0 {
        return format!("{value:.2}");
    }
    if size < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{:.0}", size);
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if value < 0.0 { format!("-{out}") } else { out }
}

/// An empty histogram of nanoseconds: three digits, up to an hour.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("bounds that a histogram can have")
}

/// Percentiles of a histogram of nanoseconds, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean_us: f64,
    /// Standard deviation.
    pub stdev_us: f64,
    /// Half are at or below.
    pub p50_us: f64,
    /// 90 of 100 are.
    pub p90_us: f64,
    /// 99 of 100 are.
    pub p99_us: f64,
    /// 999 of 1,000 are.
    pub p999_us: f64,
    /// All are.
    pub max_us: f64,
}

impl Latency {
    /// Of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Latency {
        let us = |ns: u64| ns as f64 / 1e3;
        Latency {
            count: histogram.len(),
            stdev_us: histogram.stdev() / 1e3,
            mean_us: histogram.mean() / 1e3,
            p50_us: us(histogram.value_at_quantile(0.5)),
            p90_us: us(histogram.value_at_quantile(0.9)),
            p99_us: us(histogram.value_at_quantile(0.99)),
            p999_us: us(histogram.value_at_quantile(0.999)),
            max_us: us(histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_in_the_middle_and_tells_its_spread() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of([5.0]).text(), "5.00");
        assert_eq!(Spread::of([1200.0, 1000.0, 1100.0]).text(), "1,100 (1,000-1,200)");
        assert_eq!(Spread::of([]).text(), "- (---)");
    }

    #[test]
    fn figures_keep_the_digits_that_count() {
        let texts = [0.123, 9.876, 12.34, 123.4, 1234.5, 12_345_678.0, -1234.0].map(figure);
        assert_eq!(texts, ["0.12", "9.88", "12.3", "123", "1,234", "12,345,678", "-1,234"]);
    }

    #[test]
    fn a_table_lines_its_columns_up() {
        let mut table = Table::new("sums", &["what", "figure"]);
        table.row(["one".into(), "1".into()]);
        table.row(["thousand".into(), "1,000".into()]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        expect_test::expect![[r#"

            sums
            | what     | figure |
            |----------|-------:|
            | one      |      1 |
            | thousand |  1,000 |
        "#]]
        .assert_eq(&String::from_utf8(out).unwrap());
    }
}
