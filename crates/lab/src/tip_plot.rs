//! The sweep of `arioso bench tip` as a picture: selectivity to the right, time against the linear scan upwards, both in
//! decades; a line for each way and message size.

use std::fmt::Write;

use crate::tip_bench::Row;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 220.0;
const EDGE: f64 = 30.0;
/// Percent: 10^-2 to 10^2. Times the scan: 10^-3 to 10^1.
const DECADES: f64 = 4.0;
const LEAST_PERCENT: f64 = -2.0;
const LEAST_RATIO: f64 = -3.0;
const COLOURS: [&str; 4] = ["#888", "#c60", "#06c", "#080"];

fn x(percent: f64) -> f64 {
    LEFT + (percent.log10() - LEAST_PERCENT) / DECADES * (WIDTH - LEFT - RIGHT)
}

fn y(ratio: f64) -> f64 {
    HEIGHT - EDGE - (ratio.max(1e-3).log10() - LEAST_RATIO) / DECADES * (HEIGHT - 2.0 * EDGE)
}

/// An SVG of the rows.
pub fn svg(rows: &[Row]) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let mut put = |line: std::fmt::Arguments<'_>| {
        let _ = out.write_fmt(line);
        out.push('\n');
    };
    put(format_args!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">"#
    ));
    put(format_args!(r#"<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>"#));
    for decade in 0..=4 {
        let (percent, ratio) = (10f64.powi(decade - 2), 10f64.powi(decade - 3));
        let (left, right, top, bottom) = (LEFT, WIDTH - RIGHT, EDGE, HEIGHT - EDGE);
        let (at, up) = (x(percent), y(ratio));
        put(format_args!(r##"<path d="M{at:.1} {top}V{bottom}M{left} {up:.1}H{right}" stroke="#ddd"/>"##));
        put(format_args!(r#"<text x="{at:.1}" y="{}" text-anchor="middle">{percent} %</text>"#, bottom + 14.0));
        put(format_args!(r#"<text x="{}" y="{:.1}" text-anchor="end">{ratio} ×</text>"#, left - 6.0, up + 4.0));
    }
    let mut lines: Vec<(&str, usize)> = Vec::new();
    for row in rows {
        if !lines.contains(&(row.way, row.payload)) {
            lines.push((row.way, row.payload));
        }
    }
    let mut ways: Vec<&str> = Vec::new();
    let mut payloads: Vec<usize> = Vec::new();
    for (number, (way, payload)) in lines.iter().enumerate() {
        ways.extend((!ways.contains(way)).then_some(*way));
        payloads.extend((!payloads.contains(payload)).then_some(*payload));
        let colour = COLOURS[ways.iter().position(|other| other == way).unwrap_or(0) % COLOURS.len()];
        let dash = 4 * payloads.iter().position(|other| other == payload).unwrap_or(0);
        let points = rows.iter().filter(|row| row.way == *way && row.payload == *payload);
        let points = points.map(|row| format!("{:.1},{:.1}", x(row.selectivity), y(row.ratio)));
        let points = points.collect::<Vec<_>>().join(" ");
        let style = format!(r#"fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dash}""#);
        put(format_args!(r#"<polyline points="{points}" {style}/>"#));
        let (key, at) = (WIDTH - RIGHT + 10.0, EDGE + 16.0 * number as f64);
        put(format_args!(r#"<path d="M{key} {at}h24" {style}/>"#));
        put(format_args!(r#"<text x="{}" y="{}">{way}, {payload} B</text>"#, key + 30.0, at + 4.0));
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_a_line_and_the_scan_lies_at_one() {
        let row = |way, selectivity, ratio| Row {
            payload: 8,
            selectivity,
            way,
            messages: 1,
            tested: 1,
            ns_per_message: 1.0,
            ratio,
        };
        let svg = svg(&[row("scan", 1.0, 1.0), row("scan", 100.0, 1.0), row("index", 1.0, 0.1)]);
        assert_eq!(svg.matches("<polyline").count(), 2);
        let flat = format!("{:.1},{:.1} {:.1},{:.1}", x(1.0), y(1.0), x(100.0), y(1.0));
        assert!(svg.contains(&flat), "{svg}");
    }
}
