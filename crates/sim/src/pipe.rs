//! One direction of a connection: bytes arrive late, in pieces cut anywhere, in order; or no longer.

use std::collections::VecDeque;

use crate::rng::Rng;

/// What a socket's buffers take.
const PIPE_BYTES_MAX: usize = 48 << 10;
/// The longest piece.
const PIECE_BYTES_MAX: u64 = 16 << 10;

#[derive(Debug)]
enum Piece {
    Bytes(Vec<u8>),
    End,
}

/// One direction of a connection.
#[derive(Debug)]
pub struct Pipe {
    pieces: VecDeque<(u64, Piece)>,
    bytes: usize,
    newest: u64,
    /// Nothing gets through any more, and nobody is told.
    dead: bool,
    ended: bool,
}

/// What there is to receive.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrived {
    /// Nothing now; the next piece is due then.
    Nothing(Option<u64>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// The other side is gone.
    End,
}

impl Pipe {
    /// An empty one.
    pub fn new() -> Pipe {
        Pipe { pieces: VecDeque::new(), bytes: 0, newest: 0, dead: false, ended: false }
    }

    /// Bytes that can be sent now.
    pub fn room(&self) -> usize {
        PIPE_BYTES_MAX.saturating_sub(self.bytes)
    }

    /// Sends bytes; gives when the first piece arrives.
    pub fn send(&mut self, now: u64, rng: &mut Rng, bytes: &[u8]) -> Option<u64> {
        if self.dead || self.ended {
            return None;
        }
        let mut rest = bytes;
        let mut first = None;
        while !rest.is_empty() {
            let most = if rng.percent(15) { 40 } else { PIECE_BYTES_MAX };
            let piece = rest.len().min(rng.within(1, most) as usize);
            let (head, tail) = rest.split_at(piece);
            rest = tail;
            self.newest = self.newest.max(now + delay(rng));
            first.get_or_insert(self.newest);
            self.bytes += head.len();
            self.pieces.push_back((self.newest, Piece::Bytes(head.to_vec())));
        }
        first
    }

    /// The sender is gone; gives when the other side learns of it.
    pub fn end(&mut self, now: u64, rng: &mut Rng) -> Option<u64> {
        if self.dead || self.ended {
            return None;
        }
        self.ended = true;
        self.newest = self.newest.max(now + delay(rng));
        self.pieces.push_back((self.newest, Piece::End));
        Some(self.newest)
    }

    /// What is under way gets lost from some piece on.
    pub fn lose_some(&mut self, rng: &mut Rng) {
        let keep = rng.index(self.pieces.len() + 1);
        self.pieces.truncate(keep);
        self.bytes =
            self.pieces.iter().map(|(_, piece)| if let Piece::Bytes(bytes) = piece { bytes.len() } else { 0 }).sum();
    }

    /// Nothing gets through any more, and nobody is told.
    pub fn kill(&mut self) {
        self.dead = true;
        self.pieces.clear();
        self.bytes = 0;
    }

    /// The next piece.
    pub fn receive(&mut self, now: u64) -> Arrived {
        match self.pieces.pop_front_if(|(at, _)| *at <= now) {
            None => Arrived::Nothing(self.pieces.front().map(|(at, _)| *at)),
            Some((_, Piece::End)) => Arrived::End,
            Some((_, Piece::Bytes(bytes))) => {
                self.bytes -= bytes.len();
                Arrived::Bytes(bytes)
            }
        }
    }
}

impl Default for Pipe {
    fn default() -> Pipe {
        Pipe::new()
    }
}

/// Mostly well below a millisecond, now and then much more.
fn delay(rng: &mut Rng) -> u64 {
    match rng.below(100) {
        0 => rng.within(20_000_000, 200_000_000),
        1..10 => rng.within(1_000_000, 10_000_000),
        _ => rng.within(20_000, 400_000),
    }
}
