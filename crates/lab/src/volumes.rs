//! Reading tables of topic volumes and of recorded subscriptions.
//!
//! A volume table has a line `topic<TAB>messages<TAB>bytes` for each topic, in any order, with or without
//! that header; a name that ends in `.zst` is decompressed. Bad lines are named and left out.

use crate::Error;
use arioso_store::plan::{Demand, TopicTree, Volume};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The longest line: a topic of 1,024 bytes and two numbers of 20 digits fit several times.
const LINE_BYTES_MAX: u64 = 4096;
/// Bad lines kept by name; the others are counted.
const BAD_LINES_MAX: usize = 100;
/// Sums of volumes stay below this.
const VOLUME_SUM_MAX: u64 = 1 << 63;
const HEADER: &[u8] = b"topic\tmessages\tbytes";

/// A line that was left out.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BadLine {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong and what would be right.
    pub why: String,
}

/// A table, as a tree.
#[derive(Debug)]
pub struct Volumes {
    /// The good lines.
    pub tree: TopicTree,
    /// The first of the bad ones.
    pub bad: Vec<BadLine>,
    /// How many were bad.
    pub bad_lines: u64,
}

/// One good line; its topic lies in the common text.
struct Row {
    topic: std::ops::Range<usize>,
    messages: u64,
    bytes: u64,
    line: u64,
}

/// Reads a table.
///
/// # Errors
/// A file that can't be read, or without a single good line.
pub fn read(file: &Path) -> Result<Volumes, Error> {
    let volumes = parse(open(file)?.as_mut()).map_err(|source| failed(file, source))??;
    if volumes.tree.is_empty() {
        let first = volumes.bad.first().map(|bad| format!("line {}: {}", bad.line, bad.why));
        let first = first.unwrap_or_else(|| "the file is empty".to_owned());
        return Err(Error::NoVolumes { file: file.to_owned(), first });
    }
    Ok(volumes)
}

/// Reads what subscribers asked for: `filter`, or `filter<TAB>times`, a line.
///
/// # Errors
/// A file that can't be read, or a line that is no filter.
pub fn read_subscriptions(file: &Path, tree: &TopicTree) -> Result<Demand, Error> {
    let mut input = open(file)?;
    let mut filters: Vec<(Vec<u8>, u64)> = Vec::new();
    let mut lines = Lines::new(input.as_mut());
    while let Some((line, text)) = lines.next().map_err(|source| failed(file, source))? {
        let bad = |why: String| Error::Subscription { file: file.to_owned(), line, why };
        let text = text.map_err(|why| bad(why.to_owned()))?;
        let mut fields = text.splitn(2, |b| *b == b'\t');
        let filter = fields.next().unwrap_or_default();
        let times = match fields.next() {
            Some(times) => number(times, "times").map_err(bad)?,
            None => 1,
        };
        // Each by itself, so that a bad one is named by its line.
        Demand::check_filter(filter).map_err(|error| bad(error.to_string()))?;
        filters.push((filter.to_vec(), times));
    }
    let filters = filters.iter().map(|(filter, times)| (filter.as_slice(), *times));
    Ok(Demand::recorded(tree, filters)?)
}

fn failed(file: &Path, source: std::io::Error) -> Error {
    Error::File { file: file.to_owned(), source }
}

fn open(file: &Path) -> Result<Box<dyn BufRead>, Error> {
    let input = File::open(file).map_err(|source| failed(file, source))?;
    if file.extension().is_some_and(|ending| ending == "zst") {
        let decoder = zstd::Decoder::new(input).map_err(|source| failed(file, source))?;
        return Ok(Box::new(BufReader::new(decoder)));
    }
    Ok(Box::new(BufReader::new(input)))
}

/// Lines of bounded length, numbered from 1.
struct Lines<'a> {
    input: &'a mut dyn BufRead,
    text: Vec<u8>,
    line: u64,
}

impl<'a> Lines<'a> {
    fn new(input: &'a mut dyn BufRead) -> Lines<'a> {
        Lines { input, text: Vec::new(), line: 0 }
    }

    /// The next line that is not empty, or why it is none.
    #[expect(clippy::type_complexity, reason = "a line, numbered, if it can be read and is one")]
    fn next(&mut self) -> std::io::Result<Option<(u64, Result<&[u8], &'static str>)>> {
        loop {
            self.line += 1;
            self.text.clear();
            if (&mut *self.input).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.text)? == 0 {
                return Ok(None);
            }
            if self.text.last() != Some(&b'\n') && self.text.len() as u64 == LINE_BYTES_MAX {
                skip_line(self.input)?;
                return Ok(Some((self.line, Err("a line has at most 4096 bytes"))));
            }
            while self.text.pop_if(|last| *last == b'\n' || *last == b'\r').is_some() {}
            if !self.text.is_empty() {
                return Ok(Some((self.line, Ok(&self.text))));
            }
        }
    }
}

fn skip_line(input: &mut dyn BufRead) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let end = buffer.iter().position(|b| *b == b'\n');
        let (taken, done) = (end.map_or(buffer.len(), |end| end + 1), end.is_some() || buffer.is_empty());
        input.consume(taken);
        if done {
            return Ok(());
        }
    }
}

/// The outer error is the input's, the inner the tree's.
fn parse(input: &mut dyn BufRead) -> std::io::Result<Result<Volumes, Error>> {
    let mut bad = Bad::default();
    let mut topics: Vec<u8> = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    let (mut messages_sum, mut bytes_sum) = (0u64, 0u64);
    let mut lines = Lines::new(input);
    while let Some((line, text)) = lines.next()? {
        let row = text.map_err(str::to_owned).and_then(|text| match text {
            HEADER if line == 1 => Ok(None),
            text => row_of(text).map(Some),
        });
        match row {
            Ok(None) => {}
            Ok(Some((_, messages, bytes)))
                if messages_sum.saturating_add(messages).max(bytes_sum.saturating_add(bytes)) >= VOLUME_SUM_MAX =>
            {
                bad.add(line, "with it the volumes add up to 2^63 or more".to_owned());
            }
            Ok(Some((topic, messages, bytes))) => {
                messages_sum += messages;
                bytes_sum += bytes;
                let start = topics.len();
                topics.extend_from_slice(topic);
                rows.push(Row { topic: start..topics.len(), messages, bytes, line });
            }
            Err(why) => bad.add(line, why),
        }
    }
    rows.sort_by(|a, b| topics[a.topic.clone()].cmp(&topics[b.topic.clone()]).then(a.line.cmp(&b.line)));
    rows.dedup_by(|again, first| {
        let same = topics[again.topic.clone()] == topics[first.topic.clone()];
        if same {
            bad.add(again.line, format!("its topic already stands in line {}; a topic has one line", first.line));
        }
        same
    });
    let volume = |row: &Row| Volume { topic: &topics[row.topic.clone()], messages: row.messages, bytes: row.bytes };
    Ok(match TopicTree::build(rows.iter().map(volume)) {
        Ok(tree) => Ok(bad.with(tree)),
        Err(error) => Err(error.into()),
    })
}

#[derive(Default)]
struct Bad {
    first: Vec<BadLine>,
    count: u64,
}

impl Bad {
    fn add(&mut self, line: u64, why: String) {
        self.count += 1;
        if self.first.len() < BAD_LINES_MAX {
            self.first.push(BadLine { line, why });
        }
    }

    fn with(mut self, tree: TopicTree) -> Volumes {
        self.first.sort_by_key(|bad| bad.line);
        Volumes { tree, bad: self.first, bad_lines: self.count }
    }
}

fn row_of(text: &[u8]) -> Result<(&[u8], u64, u64), String> {
    let fields: Vec<&[u8]> = text.split(|b| *b == b'\t').collect();
    let [topic, messages, bytes] = fields[..] else {
        return Err(format!("it has {} fields, wanted are topic, messages and bytes with a tab between", fields.len()));
    };
    if std::str::from_utf8(topic).is_err() {
        return Err(format!("topic {:?} is not UTF-8", String::from_utf8_lossy(topic)));
    }
    let checked = TopicTree::check(topic)
        .and_then(|()| if topic.contains(&b'*') { Err("a topic holds no star") } else { Ok(()) });
    checked.map_err(|why| format!("topic {:?}: {why}", String::from_utf8_lossy(topic)))?;
    Ok((topic, number(messages, "messages")?, number(bytes, "bytes")?))
}

fn number(field: &[u8], what: &str) -> Result<u64, String> {
    let text = String::from_utf8_lossy(field);
    let digits = !field.is_empty() && field.iter().all(u8::is_ascii_digit);
    text.parse()
        .ok()
        .filter(|_| digits)
        .ok_or_else(|| format!("{what} {text:?} is not a whole number from 0 to 2^64-1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn parsed(text: &[u8]) -> Volumes {
        parse(&mut &*text).unwrap().unwrap()
    }

    #[test]
    fn a_table_in_any_order_becomes_a_tree() {
        let volumes = parsed(b"topic\tmessages\tbytes\nb\t2\t20\r\na/b\t1\t10\n\n/\t3\t5");
        assert_eq!((volumes.tree.rows(), volumes.bad_lines), (3, 0));
        let topics: Vec<&[u8]> = (0..3).map(|row| volumes.tree.topic(row)).collect();
        assert_eq!(topics, [&b"/"[..], b"a/b", b"b"]);
        assert_eq!(volumes.tree.row_bytes(2), 20);
    }

    #[test]
    fn bad_lines_are_named_and_the_rest_goes_on() {
        let long = [b"x".repeat(5000), b"\n".to_vec()].concat();
        let mut text =
            b"a\t1\t2\nb\t1\nc\tone\t2\n\xff\t1\t1\na\t3\t4\nd\t1\t-5\ne/*\t1\t1\nf\t1\t1\tx\n\t1\t1\n".to_vec();
        text.extend(long);
        text.extend(b"z\t+1\t1\ny\t1\t18446744073709551615\nlast\t7\t8\n");
        let volumes = parsed(&text);
        assert_eq!((volumes.tree.rows(), volumes.bad_lines), (2, 11));
        let named: Vec<String> = volumes.bad.iter().map(|bad| format!("{}: {}", bad.line, bad.why)).collect();
        expect![[r#"
            2: it has 2 fields, wanted are topic, messages and bytes with a tab between
            3: messages "one" is not a whole number from 0 to 2^64-1
            4: topic "�" is not UTF-8
            5: its topic already stands in line 1; a topic has one line
            6: bytes "-5" is not a whole number from 0 to 2^64-1
            7: topic "e/*": a topic holds no star
            8: it has 4 fields, wanted are topic, messages and bytes with a tab between
            9: topic "": a topic has 1 to 1024 bytes
            10: a line has at most 4096 bytes
            11: messages "+1" is not a whole number from 0 to 2^64-1
            12: with it the volumes add up to 2^63 or more"#]]
        .assert_eq(&named.join("\n"));
    }

    #[test]
    fn bad_lines_beyond_a_hundred_are_counted() {
        let volumes = parsed(&b"bad\n".repeat(1000));
        assert_eq!((volumes.bad.len(), volumes.bad_lines), (100, 1000));
    }

    #[test]
    fn a_file_without_a_good_line_is_refused_with_its_first_bad_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("none.tsv");
        std::fs::write(&file, "{\"topic\": \"a\"}\n").unwrap();
        let error = read(&file).unwrap_err().to_string();
        assert!(error.contains("none.tsv") && error.contains("line 1: it has 1 fields"), "{error}");
        std::fs::write(&file, "").unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("the file is empty"));
        assert!(read(&dir.path().join("gone")).unwrap_err().to_string().contains("gone"));
    }

    #[test]
    fn a_damaged_zst_file_is_an_error_and_a_whole_one_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("v.tsv.zst");
        let packed = zstd::encode_all(&b"a\t1\t2\nb/c\t3\t4\n"[..], 3).unwrap();
        std::fs::write(&file, &packed).unwrap();
        assert_eq!(read(&file).unwrap().tree.rows(), 2);
        std::fs::write(&file, &packed[..packed.len() - 3]).unwrap();
        assert!(matches!(read(&file), Err(Error::File { .. })));
    }

    #[test]
    fn recorded_subscriptions_are_counted_and_bad_ones_named_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("subscriptions");
        let tree = parsed(b"a/b\t1\t10\na/c\t1\t20\nd\t1\t5\n").tree;
        std::fs::write(&file, "a/b\t3\na/**\n").unwrap();
        let demand = read_subscriptions(&file, &tree).unwrap();
        let node = |name: &str| tree.find(name.as_bytes()).unwrap();
        assert_eq!((demand.own(node("a/b")), demand.subtree(node("a")), demand.own(node("d"))), (3, 1, 0));
        for (text, want) in [("a\nb*\n", "line 2: filter \"b*\""), ("a\tx\n", "line 1: times \"x\"")] {
            std::fs::write(&file, text).unwrap();
            let error = read_subscriptions(&file, &tree).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
