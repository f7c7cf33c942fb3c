//! When a line was received, as far as the receiver tells: AIS itself has only the second of the minute.
//!
//! ```text
//! \s:2573315,c:1661508206*0D\!BSVDM,…     a tag block in front: `c`, unix seconds or milliseconds
//! $PGHP,1,2010,6,11,11,46,12,874,…        a line before: year, month, day, hour, minute, second, millisecond
//! ```

/// Unix milliseconds have more digits than this many seconds.
const SECONDS_MAX: i64 = 99_999_999_999;

const NS_PER_SECOND: i64 = 1_000_000_000;
const NS_PER_MS: i64 = 1_000_000;

/// When `line` says it was received, in unix nanoseconds.
#[must_use]
pub fn received(line: &[u8]) -> Option<i64> {
    if line.starts_with(b"$PGHP,") { proprietary(line) } else { tag_block(line) }
}

/// Whether the time in `line` is that of the sentences after it.
#[must_use]
pub fn is_ahead(line: &[u8]) -> bool {
    line.starts_with(b"$PGHP,")
}

fn number(field: &[u8]) -> Option<i64> {
    std::str::from_utf8(field).ok()?.trim().parse().ok()
}

fn tag_block(line: &[u8]) -> Option<i64> {
    let block = line.strip_prefix(b"\\")?;
    let block = &block[..block.iter().position(|b| *b == b'\\')?];
    let block = block.split(|b| *b == b'*').next()?;
    let time = block.split(|b| *b == b',').find_map(|field| number(field.strip_prefix(b"c:")?))?;
    let unit = if time > SECONDS_MAX { NS_PER_MS } else { NS_PER_SECOND };
    time.checked_mul(unit).filter(|ns| *ns > 0)
}

fn proprietary(line: &[u8]) -> Option<i64> {
    let mut fields = line.split(|b| *b == b',').skip(2).map(number);
    let mut next = |low, high| fields.next()?.filter(|n| (low..=high).contains(n));
    let (year, month, day) = (next(1970, 2200)?, next(1, 12)?, next(1, 31)?);
    let (hour, minute, second, ms) = (next(0, 23)?, next(0, 59)?, next(0, 60)?, next(0, 999)?);
    // Years begin in March here, so that the day that a leap year has more is the last one.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days_before_month = (153 * month + 2) / 5;
    let leaps = year / 4 - year / 100 + year / 400;
    let days = 365 * year + leaps + days_before_month + day - 1 - DAYS_TO_1970;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * NS_PER_SECOND + ms * NS_PER_MS)
}

/// Days from 1 March of the year 0 to 1 January 1970.
const DAYS_TO_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_read_from_tag_blocks_and_from_the_line_before() {
        let rows: [(&[u8], Option<i64>); 7] = [
            (b"\\s:2573315,c:1661508206*0D\\!BSVDM,1,1,,A,x,0*00", Some(1_661_508_206_000_000_000)),
            (b"\\c:1661508206123*0D\\!BSVDM,1,1,,A,x,0*00", Some(1_661_508_206_123_000_000)),
            (b"\\g:1-2-27300*5F\\!SAVDM,2,1,2,B,x,0*26", None),
            (b"!AIVDM,1,1,,A,c:12,0*00", None),
            (b"$PGHP,1,2010,6,11,11,46,11,390,231,45,992190934,1,2B*5B", Some(1_276_256_771_390_000_000)),
            (b"$PGHP,1,2000,2,29,0,0,0,0,,,", Some(951_782_400_000_000_000)),
            (b"$PGHP,1,2010,13,11,11,46,11,390", None),
        ];
        for (line, want) in rows {
            assert_eq!(received(line), want, "{}", String::from_utf8_lossy(line));
        }
    }
}
