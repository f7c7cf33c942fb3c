//! What can be set: one table, one row a setting. The file's keys, the environment's variables, the flags, `--print-config`
//! and docs/operating.md all come from it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use arioso_store::stores::STORES_MAX;

/// A server's settings, resolved: nothing is optional past this point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Data directory.
    pub data: PathBuf,
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
    /// Largest payload.
    pub payload_bytes_max: u64,
    /// Bytes that may wait for the journal.
    pub pending_bytes_max: u64,
    /// Topics.
    pub topics_max: u64,
    /// Named publishers.
    pub publishers_max: u64,
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
            payload_bytes_max: 16 << 20,
            pending_bytes_max: 64 << 20,
            topics_max: 4_000_000,
            publishers_max: 10_000,
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
        _ => return Err(wants()),
    };
    let count: u64 = digits.replace('_', "").parse().map_err(|_| wants())?;
    count.checked_mul(unit).filter(|n| (low..=high).contains(n)).ok_or_else(wants)
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
