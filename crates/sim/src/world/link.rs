//! A connection: two pipes, and the server's session at one end, driven as `connection` drives it on a socket.

use arioso_server::output::Output;
use arioso_server::session::Session;

use super::tap::Tap;
use crate::pipe::Pipe;

/// With this much unsent nothing more is read from the socket, as `connection` does.
pub const OUTPUT_BYTES_HARD: usize = 4 << 20;
/// No output grows beyond: the hard limit, a slice, the answers of a turn, and the largest record of a run.
pub const OUTPUT_BYTES_CEILING: usize = OUTPUT_BYTES_HARD + (2 << 20);
/// How long a session that is over may take to send what is left, as `connection` does.
pub const FAREWELL_NS: u64 = 5_000_000_000;

/// One connection.
pub struct Link {
    /// Whose it is.
    pub client: usize,
    /// The life of the server it leads to.
    pub life: u32,
    /// The server's end; gone when the session is over.
    pub session: Option<Session>,
    /// What the session has to send.
    pub out: Output,
    /// To the server.
    pub up: Pipe,
    /// To the client.
    pub down: Pipe,
    /// What the client says.
    pub up_tap: Tap,
    /// What the server says.
    pub down_tap: Tap,
    /// When the session is looked after next.
    pub turn_at: u64,
    /// The session has more to do: nothing is read before.
    pub again: bool,
    /// The session has a slice of recovery to read: its next turn may.
    pub slice: bool,
    /// The session is over and sends what is left until then.
    pub farewell: Option<u64>,
    /// The client has let it go.
    pub client_gone: bool,
}

impl Link {
    /// A connection that was just accepted.
    pub fn new(client: usize, life: u32, session: Session) -> Link {
        Link {
            client,
            life,
            session: Some(session),
            out: Output::default(),
            up: Pipe::new(),
            down: Pipe::new(),
            up_tap: Tap::new(),
            down_tap: Tap::new(),
            turn_at: u64::MAX,
            again: false,
            slice: false,
            farewell: None,
            client_gone: false,
        }
    }

    /// Whether both ends are done with it.
    pub fn is_gone(&self) -> bool {
        self.session.is_none() && self.client_gone
    }
}
