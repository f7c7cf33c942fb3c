//! What can go wrong with a bus.

/// What a call of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bus in this process can't be opened.
    #[error(transparent)]
    Open(#[from] arioso_server::opening::OpenError),
    /// A publish, a subscription, a request or the connection.
    #[error(transparent)]
    Client(#[from] arioso_client::Error),
    /// The journal was lost, or its end could not be written.
    #[error(transparent)]
    Journal(#[from] arioso_journal::Error),
    /// Retention has passed the position.
    #[error("sequence {wanted} is not kept any more, {first} is the first that is")]
    Trimmed {
        /// The first message wanted.
        wanted: arioso_stream::Sequence,
        /// The first message kept.
        first: arioso_stream::Sequence,
    },
    /// Threads or sockets.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl Error {
    /// The number from the table of errors, where the server refused.
    pub fn code(&self) -> Option<arioso_wire::Code> {
        match self {
            Error::Client(arioso_client::Error::Refused { code, .. }) => Some(*code),
            _ => None,
        }
    }
}
