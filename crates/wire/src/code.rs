//! Error numbers: the table of docs/protocol.md section 6, one row a number.

/// Whether and how what was refused may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Not as it is.
    No,
    /// As it is, after the time told.
    Yes,
    /// Not on this server process.
    Elsewhere,
    /// After the publisher was opened again.
    AfterReopening,
    /// By a named publisher, under the same publisher sequence, on another connection.
    SameNumber,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal, $text:literal, $retry:ident;)*) => {
        /// An error number. Numbers a newer peer may send are kept as `Other`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* #[doc = $text] $variant,)*
            /// A number this version doesn't know.
            Other(u16),
        }

        impl Code {
            /// Every number this version knows.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// The number on the wire.
            pub const fn number(self) -> u16 {
                match self {
                    $(Code::$variant => $number,)*
                    Code::Other(number) => number,
                }
            }

            /// The code of a number.
            pub const fn from_number(number: u16) -> Code {
                match number {
                    $($number => Code::$variant,)*
                    other => Code::Other(other),
                }
            }

            /// Its name in the table.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Code::$variant => $name,)*
                    Code::Other(_) => "unknown error number",
                }
            }

            /// What it means, in a few words.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Code::$variant => $text,)*
                    Code::Other(_) => "an error number this version does not know",
                }
            }

            /// Whether it may be tried again.
            pub const fn retry(self) -> Retry {
                match self {
                    $(Code::$variant => Retry::$retry,)*
                    Code::Other(_) => Retry::No,
                }
            }
        }
    };
}

codes! {
    Ok = 0, "ok", "done", No;
    BadFrame = 1, "bad frame", "the bytes do not parse", No;
    FrameTooLarge = 2, "frame too large", "the frame is over the receiver's frame bytes max", No;
    UnknownFrame = 3, "unknown frame", "the frame's type is not known", No;
    Version = 4, "version", "no common protocol version", No;
    WrongStream = 5, "wrong stream", "the position or hello names another stream", No;
    Unauthorised = 6, "unauthorised", "reserved", No;
    ShuttingDown = 7, "shutting down", "the server stops cleanly", Yes;
    NotReady = 8, "not ready", "the server replays", Yes;
    Internal = 9, "internal", "the journal is lost; the server stops", Elsewhere;
    BadTopic = 10, "bad topic", "the topic can't be published on", No;
    BadFilter = 11, "bad filter", "the filter does not parse", No;
    TooManyFilters = 12, "too many filters", "a filter set has at most 16384 filters", No;
    TooManyTopics = 13, "too many topics", "topics-max is reached", No;
    TooManyPublishers = 14, "too many publishers", "publishers-max is reached", No;
    TooManySubscriptions = 15, "too many subscriptions", "subscriptions-max of this connection is reached", No;
    PayloadTooLarge = 16, "payload too large", "the payload is over payload-bytes-max", No;
    BadRecord = 17, "bad record", "header, extension or length of a record is wrong", No;
    Busy = 18, "busy", "a ceiling is reached; the number is not consumed", Yes;
    Expected = 19, "expected", "another publisher sequence is due", Yes;
    NotStored = 20, "not stored", "that publisher sequence was consumed without a message", No;
    TooOld = 21, "too old", "below the window of remembered publisher sequences", No;
    DiskFull = 22, "disk full", "the disk is full; the number is not consumed", Yes;
    Failed = 23, "failed", "known not to be durable; voided", AfterReopening;
    Reopen = 24, "reopen", "the publisher's epoch is closed", AfterReopening;
    Fenced = 25, "fenced", "another holder opened this publisher or cursor", No;
    Unknown = 26, "unknown", "the outcome will not be known on this connection", SameNumber;
    ConditionFailed = 27, "condition failed", "the newest matching message is another one", No;
    BatchTooLarge = 28, "atomic batch too large", "an atomic batch has at most 4096 messages and 16 MiB", No;
    BadPosition = 29, "bad position", "the start position can't be used", No;
    Damaged = 30, "damaged", "a part of history can't be read", No;
    NoSuchCursor = 31, "no such cursor", "no cursor has this name", No;
    OtherFilters = 32, "cursor has other filters", "the cursor was made with other filters", No;
    TooManyCursors = 33, "too many cursors", "cursors-max is reached", No;
    NoSuchPublisher = 34, "no such publisher", "no publisher has this name", No;
    NotOffered = 35, "not offered", "known, but this server does not offer it", No;
    NamesTooSlow = 36, "too slow to read names", "reserved", No;
}

impl Code {
    /// Whether a publish answered like this left its publisher sequence unconsumed, so that the same number comes again.
    pub const fn keeps_number(self) -> bool {
        matches!(self, Code::Busy | Code::Expected | Code::DiskFull | Code::ShuttingDown | Code::NotReady)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Code::Other(number) => write!(f, "unknown error number {number}"),
            code => f.write_str(code.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_reads_back_as_itself_and_numbers_are_dense() {
        for (at, code) in Code::ALL.iter().enumerate() {
            assert_eq!(code.number() as usize, at);
            assert_eq!(Code::from_number(code.number()), *code);
        }
        for number in 0..=u16::MAX {
            assert_eq!(Code::from_number(number).number(), number);
        }
    }

    #[test]
    fn what_keeps_its_number_may_be_retried() {
        for code in Code::ALL.iter().filter(|code| code.keeps_number()) {
            assert_eq!(code.retry(), Retry::Yes, "{code}");
        }
    }

    #[test]
    fn the_table_in_the_document_has_the_same_rows() {
        let document = include_str!("../../../docs/protocol.md");
        let section = document.split("## 6. Error numbers").nth(1).unwrap();
        let mut rows = 0;
        for line in section.lines().filter(|line| line.starts_with("| ")).skip(1) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let code = Code::from_number(cells[1].parse().unwrap());
            assert_eq!(code.name(), cells[2]);
            let retry = match cells[4] {
                "" | "no" => Retry::No,
                "yes" | "yes; retry after says when" => Retry::Yes,
                "elsewhere" => Retry::Elsewhere,
                "after reopening" => Retry::AfterReopening,
                "named publishers: the same number again" => Retry::SameNumber,
                other => panic!("{code}: retry {other:?}"),
            };
            assert_eq!(code.retry(), retry, "{code}");
            rows += 1;
        }
        assert_eq!(rows, Code::ALL.len());
    }
}
