//! What can be set: one table, one row a setting. The file's keys, the environment's variables, the flags, `--print-config`
//! and docs/operating.md all come from it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use arioso_store::stores::STORES_MAX;

use crate::retention::BUDGET_SEGMENTS_MIN;

/// A server's settings, resolved: nothing is optional past this point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Data directory.
    pub data: PathBuf,
    /// What makes messages durable: `local`, or the address of a database.
    pub journal: String,
    /// The schema of the database.
    pub postgres_schema: String,
    /// Connections that batches are written over.
    pub postgres_connections: u64,
    /// How long a connection may take to come about, in milliseconds.
    pub postgres_connect_timeout: Millis,
    /// Authorities that vouch for the database; empty: none are asked.
    pub postgres_ca: String,
    /// How long a write to the database may take before it is tried again.
    pub write_timeout: Millis,
    /// Writes in flight, as text.
    pub max_writes_in_flight: String,
    /// Name of the stream, given when the directory is made.
    pub stream_name: String,
    /// Address of the bus.
    pub listen: SocketAddr,
    /// Address of health, metrics and the page.
    pub http: SocketAddr,
    /// Listen beyond loopback without encryption or authentication.
    pub insecure: bool,
    /// Start though the last kept timestamp is far ahead of the clock.
    pub accept_clock: bool,
    /// Memory for the recent stream.
    pub tip_bytes: u64,
    /// Memory for the tip's index.
    pub index_bytes_max: u64,
    /// Memory for what is read from subtree stores.
    pub history_bytes_max: u64,
    /// Size of a journal segment.
    pub segment_bytes: u64,
    /// Segments kept to be written again.
    pub free_segments_max: u64,
    /// Sealed segments between two checkpoints.
    pub checkpoint_segments: u64,
    /// Whether history is split into subtree stores.
    pub split: bool,
    /// Segments of one span.
    pub split_segments: u64,
    /// Stores of one span.
    pub stores_per_span: u64,
    /// Bytes a second that splitting reads and writes.
    pub split_bytes_per_second: u64,
    /// Messages older than this are let go, seconds; 0: never.
    pub retention_age_s: u64,
    /// Bytes that all files of the stream may have together; 0: no limit.
    pub retention_bytes: u64,
    /// Largest payload.
    pub payload_bytes_max: u64,
    /// Bytes that may wait for the journal.
    pub pending_bytes_max: u64,
    /// Topics.
    pub topics_max: u64,
    /// Named publishers.
    pub publishers_max: u64,
    /// Cursors.
    pub cursors_max: u64,
    /// How long a cursor is kept that nobody holds or moves, seconds; 0: for ever.
    pub cursor_ttl_s: u64,
    /// Messages a publisher may have unanswered.
    pub publish_window_messages: u64,
    /// Bytes a publisher may have unanswered.
    pub publish_window_bytes: u64,
    /// Connections.
    pub connections_max: u64,
    /// Subscriptions of one connection.
    pub subscriptions_max: u64,
    /// Silence after which a side says something.
    pub heartbeat_ms: u64,
    /// Reply-ordering groups, as text.
    pub write_reply_ordering_groups: String,
    /// Ceiling of the number of groups, as text.
    pub max_write_reply_ordering_groups: String,
}

/// The journal in segments of the data directory.
pub const LOCAL: &str = "local";

/// Milliseconds, written with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Millis(pub u64);

impl Millis {
    /// As the standard library has it.
    pub fn duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1_000) { write!(f, "{}s", self.0 / 1_000) } else { write!(f, "{}ms", self.0) }
    }
}

/// A refused setting: what, where, the value, what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {name} = {value:?} is refused: {wants}")]
pub struct SettingError {
    /// Where it was set.
    pub origin: String,
    /// The setting.
    pub name: String,
    /// What was set.
    pub value: String,
    /// What would be right.
    pub wants: String,
}

/// A row of the table.
pub struct Setting {
    /// Hyphenated name: the file's key, the flag's name.
    pub name: &'static str,
    /// What the value is, for help.
    pub value: &'static str,
    /// One sentence of help; more for the operator.
    pub help: &'static str,
    /// A flag without a value.
    pub switch: bool,
    set: fn(&mut Settings, &str) -> Result<(), String>,
    get: fn(&Settings) -> String,
}

impl Setting {
    /// The environment variable of the same meaning.
    pub fn variable(&self) -> String {
        format!("ARIOSO_{}", self.name.replace('-', "_").to_uppercase())
    }

    /// The value as text.
    pub fn get(&self, settings: &Settings) -> String {
        (self.get)(settings)
    }

    /// Sets it from text.
    pub fn set(&self, settings: &mut Settings, value: &str, origin: &str) -> Result<(), SettingError> {
        (self.set)(settings, value.trim()).map_err(|wants| SettingError {
            origin: origin.into(),
            name: self.name.into(),
            value: value.into(),
            wants,
        })
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            data: PathBuf::from("arioso-data"),
            journal: LOCAL.into(),
            postgres_schema: "arioso".into(),
            postgres_connections: 20,
            postgres_connect_timeout: Millis(5_000),
            postgres_ca: String::new(),
            write_timeout: Millis(10_000),
            max_writes_in_flight: "8".into(),
            stream_name: "main".into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7420)),
            http: SocketAddr::from(([127, 0, 0, 1], 7421)),
            insecure: false,
            accept_clock: false,
            tip_bytes: 256 << 20,
            index_bytes_max: 64 << 20,
            history_bytes_max: 256 << 20,
            segment_bytes: 64 << 20,
            free_segments_max: 4,
            checkpoint_segments: 8,
            split: true,
            split_segments: 16,
            stores_per_span: 64,
            split_bytes_per_second: 64 << 20,
            retention_age_s: 0,
            retention_bytes: 0,
            payload_bytes_max: 16 << 20,
            pending_bytes_max: 64 << 20,
            topics_max: 4_000_000,
            publishers_max: 10_000,
            cursors_max: 10_000,
            cursor_ttl_s: 30 * 86_400,
            publish_window_messages: 4_096,
            publish_window_bytes: 8 << 20,
            connections_max: 4_096,
            subscriptions_max: 1_024,
            heartbeat_ms: 10_000,
            write_reply_ordering_groups: "1".into(),
            max_write_reply_ordering_groups: "10000".into(),
        }
    }
}

fn number(text: &str, low: u64, high: u64) -> Result<u64, String> {
    let wants = || format!("a whole number from {low} to {high} is wanted");
    text.replace('_', "").parse().ok().filter(|n| (low..=high).contains(n)).ok_or_else(wants)
}

fn bytes(text: &str, low: u64, high: u64) -> Result<u64, String> {
    let wants = || format!("bytes from {low} to {high} are wanted, such as 67108864 or 64MiB");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1u64,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return Err(wants()),
    };
    let count: u64 = digits.replace('_', "").parse().map_err(|_| wants())?;
    count.checked_mul(unit).filter(|n| (low..=high).contains(n)).ok_or_else(wants)
}

fn duration(text: &str, low: u64, high: u64) -> Result<u64, String> {
    let wants = || format!("seconds from {low} to {high} are wanted, such as 3600, 90m, 12h or 7d");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match text[digits.len()..].trim() {
        "" | "s" => 1u64,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wants()),
    };
    let count: u64 = digits.replace('_', "").parse().map_err(|_| wants())?;
    count.checked_mul(unit).filter(|n| (low..=high).contains(n)).ok_or_else(wants)
}

fn millis(text: &str, low: u64, high: u64) -> Result<Millis, String> {
    let wants = || format!("a time from {} to {} is wanted, such as 500ms or 10s", Millis(low), Millis(high));
    let parse = |digits: &str, unit: u64| digits.trim().parse::<u64>().ok().and_then(|count| count.checked_mul(unit));
    let given = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(digits), _) => parse(digits, 1),
        (None, Some(digits)) => parse(digits, 1_000),
        (None, None) => None,
    };
    given.filter(|ms| (low..=high).contains(ms)).map(Millis).ok_or_else(wants)
}

fn journal(text: &str) -> Result<String, String> {
    let is_postgres = text.starts_with("postgres://") || text.starts_with("postgresql://");
    if is_postgres && !cfg!(feature = "postgres") {
        return Err("this build has no journal postgres; local is wanted".into());
    }
    if text == LOCAL || is_postgres {
        Ok(text.into())
    } else {
        Err("local or postgres://user:password@host:port/database is wanted".into())
    }
}

fn schema(text: &str) -> Result<String, String> {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if (1..=63).contains(&text.len()) && text.bytes().all(good) {
        Ok(text.into())
    } else {
        Err("1 to 63 of a-z, 0-9 and _ are wanted".into())
    }
}

fn authorities(text: &str) -> Result<String, String> {
    if text.is_empty() || std::path::Path::new(text).is_file() {
        Ok(text.into())
    } else {
        Err("a PEM file that exists is wanted, or nothing".into())
    }
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" | "" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("true or false is wanted".into()),
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "an address with a port is wanted, such as 127.0.0.1:7420".into())
}

macro_rules! row {
    ($name:literal, $value:literal, $field:ident, $parse:expr, $help:literal) => {
        Setting {
            name: $name,
            value: $value,
            help: $help,
            switch: false,
            set: |settings, text| {
                settings.$field = $parse(text)?;
                Ok(())
            },
            get: |settings| settings.$field.to_string(),
        }
    };
}

const MIB: u64 = 1 << 20;
/// A hundred years: nanoseconds of it fit an `i64`.
const DURATION_MAX_S: u64 = 100 * 365 * 86_400;

/// Every setting.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "data",
        value: "DIR",
        help: "Data directory; made if missing.",
        switch: false,
        set: |settings, text| {
            settings.data = PathBuf::from(text);
            if text.is_empty() { Err("a directory is wanted".into()) } else { Ok(()) }
        },
        get: |settings| settings.data.display().to_string(),
    },
    row!(
        "journal",
        "local|postgres://…",
        journal,
        journal,
        "What makes messages durable: local, the segments in the data directory, or the address of a PostgreSQL database."
    ),
    row!(
        "postgres-schema",
        "NAME",
        postgres_schema,
        schema,
        "Schema of the database that holds the stream; made if missing."
    ),
    row!(
        "postgres-connections",
        "N",
        postgres_connections,
        |text| number(text, 1, 1_024),
        "Connections that batches are written over at most; up to 4 more read history."
    ),
    row!(
        "postgres-connect-timeout",
        "TIME",
        postgres_connect_timeout,
        |text| millis(text, 100, 600_000),
        "How long a connection to the database may take to come about."
    ),
    row!(
        "postgres-ca",
        "FILE",
        postgres_ca,
        authorities,
        "PEM file with the authorities that vouch for the database; with it connections are encrypted and the server's name is verified."
    ),
    row!(
        "write-timeout",
        "TIME",
        write_timeout,
        |text| millis(text, 100, 600_000),
        "How long a statement, an idle transaction or silence on a connection of the database is borne before the write is tried again."
    ),
    row!(
        "max-writes-in-flight",
        "N|adaptive",
        max_writes_in_flight,
        |text: &str| Ok::<_, String>(text.to_string()),
        "Writes that a journal with concurrent writes may have in flight, never more than its connections; adaptive follows its latency."
    ),
    row!(
        "stream-name",
        "NAME",
        stream_name,
        |text: &str| {
            let ok = (1..=255).contains(&text.len()) && !text.chars().any(char::is_control);
            if ok {
                Ok(text.to_string())
            } else {
                Err("1 to 255 bytes without control characters are wanted".to_string())
            }
        },
        "Name of the stream, used when the data directory is made."
    ),
    row!("listen", "ADDR", listen, address, "Address the bus listens on; port 0 takes a free one."),
    row!("http", "ADDR", http, address, "Address of /healthz, /metrics and the page; port 0 takes a free one."),
    Setting {
        name: "insecure",
        value: "",
        help: "Allow listening beyond loopback although there is no encryption and no authentication yet.",
        switch: true,
        set: |settings, text| {
            settings.insecure = switch(text)?;
            Ok(())
        },
        get: |settings| settings.insecure.to_string(),
    },
    Setting {
        name: "accept-clock",
        value: "",
        help: "Start although the last kept timestamp is more than 60 s ahead of the clock; new timestamps stand still until the clock has caught up.",
        switch: true,
        set: |settings, text| {
            settings.accept_clock = switch(text)?;
            Ok(())
        },
        get: |settings| settings.accept_clock.to_string(),
    },
    row!(
        "tip-bytes",
        "BYTES",
        tip_bytes,
        |text| bytes(text, 8 * MIB, 16 << 30),
        "Memory for the recent stream, read without touching the disk."
    ),
    row!(
        "index-bytes-max",
        "BYTES",
        index_bytes_max,
        |text| bytes(text, MIB, 16 << 30),
        "Ceiling of the tip's index; beyond it topics are found by scanning, told by the metric arioso_tip_degraded."
    ),
    row!(
        "history-bytes-max",
        "BYTES",
        history_bytes_max,
        |text| bytes(text, MIB, 64 << 30),
        "Memory for records read from subtree stores; recoveries that need more wait for one another. One that reads everything takes up to 128 MiB."
    ),
    row!(
        "segment-bytes",
        "BYTES",
        segment_bytes,
        |text| bytes(text, MIB, 4 << 30),
        "Size of a journal segment; it is written once in full before use."
    ),
    row!(
        "free-segments-max",
        "N",
        free_segments_max,
        |text| number(text, 0, 1024),
        "Retired segments kept to be written again, which makes syncs cheaper."
    ),
    row!(
        "checkpoint-segments",
        "N",
        checkpoint_segments,
        |text| number(text, 1, 1024),
        "Sealed segments between two checkpoints; a start reads what came behind the newest."
    ),
    row!(
        "split",
        "true|false",
        split,
        switch,
        "Split history into subtree stores in the background, so that reading a slice of it costs what the slice weighs."
    ),
    row!(
        "split-segments",
        "N",
        split_segments,
        |text| number(text, 1, 1024),
        "Segments that are split together into one span of stores; the newest, and what two checkpoints do not cover yet, stay whole."
    ),
    row!(
        "stores-per-span",
        "N",
        stores_per_span,
        |text| number(text, 1, STORES_MAX.into()),
        "Subtree stores of a span at most."
    ),
    row!(
        "split-bytes-per-second",
        "BYTES",
        split_bytes_per_second,
        |text| bytes(text, MIB, 64 << 30),
        "How fast splitting may read and write; it lets every sync of the journal go first."
    ),
    row!(
        "retention-age",
        "SECONDS",
        retention_age_s,
        |text| duration(text, 0, DURATION_MAX_S),
        "Messages older than this are let go, a segment at a time (90m, 12h, 7d are understood); 0: never."
    ),
    row!(
        "retention-bytes",
        "BYTES",
        retention_bytes,
        |text| bytes(text, 0, 1 << 50),
        "Bytes on disk: beyond it the oldest segments are let go. At least 8 segments; 0: no limit."
    ),
    row!("payload-bytes-max", "BYTES", payload_bytes_max, |text| bytes(text, 1, 16 * MIB), "Largest payload accepted."),
    row!(
        "pending-bytes-max",
        "BYTES",
        pending_bytes_max,
        |text| bytes(text, MIB, 4 << 30),
        "Bytes that may wait for the journal; beyond it publishers are told busy."
    ),
    row!(
        "topics-max",
        "N",
        topics_max,
        |text| number(text, 1, 100_000_000),
        "Topics the stream may have; beyond it new ones are refused."
    ),
    row!(
        "publishers-max",
        "N",
        publishers_max,
        |text| number(text, 1, 10_000_000),
        "Named publishers kept; beyond it new ones are refused."
    ),
    row!(
        "cursors-max",
        "N",
        cursors_max,
        |text| number(text, 1, 1_000_000),
        "Cursors kept; beyond it new ones are refused."
    ),
    row!(
        "cursor-ttl",
        "SECONDS",
        cursor_ttl_s,
        |text| duration(text, 0, DURATION_MAX_S),
        "How long a cursor is kept that nobody holds or moves (90m, 12h, 7d are understood); 0: for ever."
    ),
    row!(
        "publish-window-messages",
        "N",
        publish_window_messages,
        |text| number(text, 1, 1 << 20),
        "Messages a publisher may have unanswered; one frame of up to 8,192 is always taken. Twice as many are remembered for retries, and at least 16,384."
    ),
    row!(
        "publish-window-bytes",
        "BYTES",
        publish_window_bytes,
        |text| bytes(text, 1 << 16, 1 << 30),
        "Bytes a publisher may have unanswered."
    ),
    row!(
        "connections-max",
        "N",
        connections_max,
        |text| number(text, 1, 1_000_000),
        "Connections at the same time; a further one is refused."
    ),
    row!(
        "subscriptions-max",
        "N",
        subscriptions_max,
        |text| number(text, 1, 65_534),
        "Subscriptions of one connection."
    ),
    row!(
        "heartbeat-ms",
        "MS",
        heartbeat_ms,
        |text| number(text, 100, 600_000),
        "Silence after which a ping is sent; three times that ends a connection."
    ),
    row!(
        "write-reply-ordering-groups",
        "N|per-publisher",
        write_reply_ordering_groups,
        |text: &str| Ok::<_, String>(text.to_string()),
        "Groups within which durable replies keep the order the writes were received in."
    ),
    row!(
        "max-write-reply-ordering-groups",
        "N",
        max_write_reply_ordering_groups,
        |text: &str| Ok::<_, String>(text.to_string()),
        "Guards write-reply-ordering-groups against typing errors."
    ),
];

/// The row of a name.
pub fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

impl Settings {
    /// What can only be judged with everything known.
    pub fn check(&self) -> Result<(), SettingError> {
        for (name, address) in [("listen", self.listen), ("http", self.http)] {
            if !address.ip().is_loopback() && !self.insecure {
                return Err(SettingError {
                    origin: "settings".into(),
                    name: name.into(),
                    value: address.to_string(),
                    wants: "beyond loopback there is no encryption or authentication yet: add insecure = true to accept that".into(),
                });
            }
        }
        if self.journal != LOCAL {
            for (name, value) in [("retention-age", self.retention_age_s), ("retention-bytes", self.retention_bytes)] {
                if value > 0 {
                    return Err(SettingError {
                        origin: "settings".into(),
                        name: name.into(),
                        value: value.to_string(),
                        wants: "0 where the journal is a database: its rows stay until they are deleted by hand".into(),
                    });
                }
            }
        }
        let budget_min = self.segment_bytes.saturating_mul(BUDGET_SEGMENTS_MIN);
        if self.retention_bytes > 0 && self.retention_bytes < budget_min {
            return Err(SettingError {
                origin: "settings".into(),
                name: "retention-bytes".into(),
                value: self.retention_bytes.to_string(),
                wants: format!(
                    "0 or at least {BUDGET_SEGMENTS_MIN} segments, {budget_min} bytes with segment-bytes = {}",
                    self.segment_bytes
                ),
            });
        }
        Ok(())
    }

    /// Messages of a publisher whose numbers are remembered for retries: twice what may be unanswered, and at least two frames.
    pub fn remembered_messages(&self) -> u32 {
        u32::try_from((self.publish_window_messages * 2).max(16_384)).unwrap_or(u32::MAX)
    }

    /// Every setting as `name = value` lines, as the file takes them.
    pub fn to_toml(&self) -> String {
        let line = |setting: &Setting| {
            let value = setting.get(self);
            let plain = value.parse::<i64>().is_ok() || value == "true" || value == "false";
            if plain { format!("{} = {value}\n", setting.name) } else { format!("{} = {value:?}\n", setting.name) }
        };
        SETTINGS.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_journal_does_not_do_is_refused_at_start() {
        let local = Settings { retention_age_s: 1, ..Settings::default() };
        local.check().unwrap();
        let database = Settings { journal: "postgres://localhost/x".into(), ..local };
        let told = database.check().unwrap_err().to_string();
        assert!(told.contains("retention-age") && told.contains("by hand"), "{told}");
    }

    #[test]
    fn every_setting_takes_its_own_text_back() {
        let mut settings = Settings::default();
        for row in SETTINGS {
            let text = row.get(&settings);
            row.set(&mut settings, &text, "test").unwrap();
        }
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn a_refused_value_names_setting_value_and_what_would_be_right() {
        let mut settings = Settings::default();
        let error = setting("tip-bytes").unwrap().set(&mut settings, "12parsecs", "file a.toml").unwrap_err();
        assert_eq!(
            error.to_string(),
            "file a.toml: tip-bytes = \"12parsecs\" is refused: bytes from 8388608 to 17179869184 are wanted, such as 67108864 or 64MiB"
        );
        assert_eq!(setting("tip-bytes").unwrap().variable(), "ARIOSO_TIP_BYTES");
        setting("tip-bytes").unwrap().set(&mut settings, "16 MiB", "flag").unwrap();
        assert_eq!(settings.tip_bytes, 16 << 20);
    }

    #[test]
    fn listening_beyond_loopback_wants_to_be_said() {
        let mut settings = Settings { listen: "0.0.0.0:7420".parse().unwrap(), ..Settings::default() };
        assert!(settings.check().unwrap_err().to_string().contains("insecure"));
        settings.insecure = true;
        settings.check().unwrap();
    }
}
