//! Ports of the world: those of the World Port Index (Pub. 150 of the United States, public domain), reduced to
//! what a map and a model need. `voyage build-ports` makes the list.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::input::Input;
use crate::sea::sphere::Position;

/// The list that belongs to this crate.
const PORTS: &str = include_str!("../data/ports.tsv");

/// The head of the list.
const HEAD: &str = "number\tname\tcountry\tsize\tlon\tlat";

/// How large a harbour is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// Very small, or not told.
    Tiny,
    /// Small.
    Small,
    /// Medium.
    Medium,
    /// Large.
    Large,
}

impl Size {
    const ALL: [(Self, &str, &str); 4] = [
        (Self::Tiny, "Very Small", "tiny"),
        (Self::Small, "Small", "small"),
        (Self::Medium, "Medium", "medium"),
        (Self::Large, "Large", "large"),
    ];

    fn short(self) -> &'static str {
        Self::ALL[self as usize].2
    }
}

/// A port.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Port {
    /// Its number in the index.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Its country.
    pub country: String,
    /// How large it is.
    pub size: Size,
    /// Where it is.
    #[serde(flatten)]
    pub at: Position,
}

/// The list that belongs to this crate, by number.
pub fn ports() -> Result<Vec<Port>> {
    let broken = |line: usize| Error::Ask(format!("list of ports line {}: not a port", line + 1));
    PORTS.lines().enumerate().skip(1).map(|(at, line)| port(line).ok_or_else(|| broken(at))).collect()
}

fn port(line: &str) -> Option<Port> {
    let mut fields = line.split('\t');
    let mut next = || fields.next();
    let (number, name, country, size) = (next()?.parse().ok()?, next()?.to_owned(), next()?.to_owned(), next()?);
    let (lon, lat) = (next()?.parse().ok()?, next()?.parse().ok()?);
    let size = Size::ALL.iter().find(|row| row.2 == size)?.0;
    Some(Port { number, name, country, size, at: Position::new(lon, lat) })
}

/// Makes the list out of the index as CSV with a head (`wpi`, `name`, `country`, `harbor_size`, `lon`, `lat`
/// among its columns).
pub fn build(index: &Path, out: &mut dyn Write) -> Result<usize> {
    let mut input = Input::open(index)?;
    let (mut line, mut number) = (Vec::new(), 0);
    let wrong = |line| Error::Table { path: index.to_owned(), line };
    let mut columns: Option<[usize; 6]> = None;
    let mut ports = Vec::new();
    while input.next_line(&mut line)?.is_some() {
        number += 1;
        let text = String::from_utf8_lossy(&line);
        let fields = fields(&text);
        let Some(at) = columns else {
            let column = |name| fields.iter().position(|f| *f == name).ok_or_else(|| wrong(number));
            columns = Some([
                column("wpi")?,
                column("name")?,
                column("country")?,
                column("harbor_size")?,
                column("lon")?,
                column("lat")?,
            ]);
            continue;
        };
        let [id, name, country, size, lon, lat] = at.map(|at| fields.get(at).copied().unwrap_or_default());
        let (Ok(id), Ok(lon), Ok(lat)) = (id.parse(), lon.parse(), lat.parse()) else { return Err(wrong(number)) };
        let size = Size::ALL.iter().find(|row| row.1 == size).map_or(Size::Tiny, |row| row.0);
        let (name, country) = (name.to_owned(), country.to_owned());
        ports.push(Port { number: id, name, country, size, at: Position::new(lon, lat) });
    }
    ports.sort_by_key(|port| port.number);
    writeln!(out, "{HEAD}").map_err(Error::Write)?;
    for Port { number, name, country, size, at } in &ports {
        writeln!(out, "{number}\t{name}\t{country}\t{}\t{:.4}\t{:.4}", size.short(), at.lon, at.lat)
            .map_err(Error::Write)?;
    }
    Ok(ports.len())
}

/// The fields of a row; quotes hold commas together.
fn fields(row: &str) -> Vec<&str> {
    let mut quoted = false;
    let parts = row.split(move |c: char| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    parts.map(|field| field.trim_matches('"')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_holds_the_great_ports_by_number() {
        let ports = ports().unwrap();
        assert!(ports.len() > 3000 && ports.is_sorted_by_key(|port| port.number));
        let rotterdam = ports.iter().find(|port| port.name == "Rotterdam").unwrap();
        assert_eq!((rotterdam.size, rotterdam.country.as_str()), (Size::Large, "Netherlands"));
        assert!(ports.iter().all(|port| port.at.is_valid()));
    }

    #[test]
    fn the_list_is_made_from_the_index_and_bad_rows_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.csv");
        let head = "wpi,name,harbor_size,country,lat,lon\n";
        std::fs::write(&path, format!("{head}20,B,Large,X,1.5,2\n10,A,,\"Y, Z\",-1,3\n")).unwrap();
        let mut out = Vec::new();
        assert_eq!(build(&path, &mut out).unwrap(), 2);
        let rows = "10\tA\tY, Z\ttiny\t3.0000\t-1.0000\n20\tB\tX\tlarge\t2.0000\t1.5000\n";
        assert_eq!(String::from_utf8(out).unwrap(), format!("{HEAD}\n{rows}"));
        std::fs::write(&path, format!("{head}20,B,Large,X,north,2\n")).unwrap();
        assert!(build(&path, &mut Vec::new()).unwrap_err().to_string().ends_with("line 2: not a row of numbers"));
    }
}
