//! The task that moves bytes between the state machine and a socket.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use arioso_wire::{FrameReader, WireError};
use bytes::{Buf, Bytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt, WriteHalf};
use tokio::time::{Instant, sleep_until, timeout};

use super::core::Shared;
use super::route::{Route, Stream};
use crate::Error;
use crate::options::{FRAME_BYTES_MAX, TRANSMIT_BYTES};

/// Slices handed to one write.
const WRITE_SLICES: usize = 64;
/// How long goodbye may take.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// When nothing is due.
const FAR: Duration = Duration::from_secs(3600);

/// What the state machine wants next.
struct Wanted {
    dial: bool,
    drop: Option<bool>,
    over: bool,
    deadline: Instant,
}

/// Ends the state machine when the task ends, however that comes.
struct EndWithTask(Arc<Shared>);

impl Drop for EndWithTask {
    fn drop(&mut self) {
        self.0.with(|core| core.connection.abort(Error::Closed));
    }
}

/// Asks the state machine what it wants, and takes up to a good write of what it has to say.
fn look(shared: &Shared, pending: &mut VecDeque<Bytes>) -> Wanted {
    let now = shared.now();
    let mut pending_bytes: usize = pending.iter().map(Bytes::len).sum();
    shared.with_task(|core| {
        core.connection.on_time(now);
        core.tell();
        while pending_bytes < TRANSMIT_BYTES
            && let Some(bytes) = core.connection.poll_transmit(now)
        {
            pending_bytes += bytes.len();
            pending.push_back(bytes);
        }
        let deadline = core.connection.next_deadline().unwrap_or(now + FAR);
        Wanted {
            dial: std::mem::take(&mut core.dial),
            drop: core.drop.take(),
            over: core.connection.is_over().is_some(),
            deadline: shared.instant(deadline),
        }
    })
}

/// Until the client is over.
pub(crate) async fn drive(shared: Arc<Shared>, route: Route, dial_timeout: Duration) {
    let _end = EndWithTask(shared.clone());
    let mut nothing = VecDeque::new();
    loop {
        let wanted = look(&shared, &mut nothing);
        nothing.clear();
        if wanted.over {
            return;
        }
        if !wanted.dial {
            tokio::select! {
                () = shared.kick.notified() => {}
                () = sleep_until(wanted.deadline) => {}
            }
            continue;
        }
        match dial(&shared, &route, dial_timeout).await {
            Some(Ok(socket)) => serve(&shared, socket).await,
            Some(Err(reason)) => {
                let now = shared.now();
                shared.with_task(|core| core.connection.connect_failed(now, &reason));
            }
            None => return,
        }
    }
}

/// Opens a socket; `None`: the client was closed or gave up meanwhile.
async fn dial(shared: &Shared, route: &Route, dial_timeout: Duration) -> Option<Result<Stream, String>> {
    let connect = timeout(dial_timeout, route.open());
    tokio::pin!(connect);
    let mut nothing = VecDeque::new();
    loop {
        let wanted = look(shared, &mut nothing);
        if wanted.over {
            return None;
        }
        tokio::select! {
            socket = &mut connect => return Some(match socket {
                Ok(Ok(socket)) => Ok(socket),
                Ok(Err(error)) => Err(format!("{route}: {error}")),
                Err(_) => Err(format!("{route}: no connection in {} ms", dial_timeout.as_millis())),
            }),
            () = shared.kick.notified() => {}
            () = sleep_until(wanted.deadline) => {}
        }
    }
}

/// Until the socket is of no use any more.
async fn serve(shared: &Shared, socket: Stream) {
    let now = shared.now();
    shared.with_task(|core| {
        // Whatever was said about the socket before is done with.
        core.drop = None;
        core.connection.connected(now);
    });
    let (mut read, mut write) = tokio::io::split(socket);
    let mut reader = FrameReader::new(FRAME_BYTES_MAX);
    let mut pending = VecDeque::new();
    loop {
        let wanted = look(shared, &mut pending);
        match wanted.drop {
            Some(true) => {
                let _ = timeout(LAST_WORDS, say_last_words(&mut write, &mut pending)).await;
                return;
            }
            Some(false) => return,
            None => {}
        }
        let lost = tokio::select! {
            written = write_some(&mut write, &pending), if !pending.is_empty() => {
                written.map(|bytes| advance(&mut pending, bytes))
            }
            count = read.read_buf(reader.spare()) => match count {
                Ok(0) => Err(io::Error::other("the server closed the connection")),
                Ok(_) => {
                    received(shared, &mut reader);
                    Ok(())
                }
                Err(error) => Err(error),
            },
            () = shared.kick.notified() => Ok(()),
            () = sleep_until(wanted.deadline) => Ok(()),
        };
        if let Err(error) = lost {
            let now = shared.now();
            let reason = error.to_string();
            shared.with_task(|core| core.connection.disconnected(now, &reason));
            return;
        }
    }
}

/// Parses what was read, outside of the lock, then hands it over.
fn received(shared: &Shared, reader: &mut FrameReader) {
    let mut frames = Vec::new();
    let broken: Option<WireError> = loop {
        match reader.next_frame() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    let now = shared.now();
    shared.with_task(|core| {
        for (channel, frame) in frames {
            core.connection.receive_frame(now, channel, frame);
        }
        if let Some(error) = broken {
            core.connection.receive_broken(now, error.into());
        }
    });
}

async fn write_some(write: &mut WriteHalf<Stream>, pending: &VecDeque<Bytes>) -> io::Result<usize> {
    let slices: Vec<IoSlice<'_>> = pending.iter().take(WRITE_SLICES).map(|bytes| IoSlice::new(bytes)).collect();
    match write.write_vectored(&slices).await? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        written => Ok(written),
    }
}

/// Takes off what was written.
fn advance(pending: &mut VecDeque<Bytes>, mut written: usize) {
    while written > 0
        && let Some(front) = pending.front_mut()
    {
        let count = written.min(front.len());
        front.advance(count);
        written -= count;
        if front.is_empty() {
            pending.pop_front();
        }
    }
}

async fn say_last_words(write: &mut WriteHalf<Stream>, pending: &mut VecDeque<Bytes>) -> io::Result<()> {
    while !pending.is_empty() {
        let written = write_some(write, pending).await?;
        advance(pending, written);
    }
    write.shutdown().await
}
