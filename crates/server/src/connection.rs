//! Drives one session on a socket (or on a pipe inside the process): reads, writes, disk reads, time, wake-ups.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, watch};
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::history::Supplied;
use crate::node::Node;
use crate::output::Output;
use crate::session::{Read, Session, Ticket, Wishes};

/// With this much unsent nothing more is read from the socket: whoever does not take its replies is not given new ones.
const OUTPUT_BYTES_HARD: usize = 4 << 20;
/// Parts of one vectored write.
const PARTS_MAX: usize = 64;
/// How long a session that is over may take to send what is left.
const FAREWELL: Duration = Duration::from_secs(5);

/// Serves a session until its peer goes, an error ends it, or `stop` turns true.
pub async fn serve<S>(stream: S, node: Arc<Node>, clock: Clock, mut stop: watch::Receiver<bool>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut session = Session::new(Arc::clone(&node), clock.mono());
    session.pace();
    let mut awaited: Option<SliceGrant> = None;
    let mut granted = None;
    let mailbox = Arc::clone(session.mailbox());
    let mut out = Output::default();
    let mut reads: JoinSet<(Ticket, Result<Supplied, String>)> = JoinSet::new();
    loop {
        let wishes = session.turn(clock.now(), &mut out);
        if let Some(permit) = granted.take() {
            // It is read. Nobody else reads one before all who could run by now have run: live deliveries are among them.
            tokio::task::yield_now().await;
            drop(permit);
        }
        let Wishes { reads: wanted, again, slice, close } = wishes;
        if close {
            return farewell(&mut writer, &mut out).await;
        }
        for Read { ticket, request } in wanted {
            let node = Arc::clone(&node);
            reads.spawn_blocking(move || (ticket, node.read(&request)));
        }
        // Kept from turn to turn: it is the place in the queue. Whoever has no room for a slice leaves the queue.
        awaited = if slice { awaited.or_else(|| Some(slice_grant(&node))) } else { None };
        let due = session.deadline() - clock.mono();
        let due = Duration::from_nanos(u64::try_from(due.max(0)).unwrap_or(0));
        tokio::select! {
            biased;
            changed = stop.changed() => {
                if changed.is_err() || *stop.borrow() {
                    session.shut_down(&mut out);
                    return farewell(&mut writer, &mut out).await;
                }
            }
            permit = async { awaited.as_mut().expect("it is asked for while a slice is wanted").await }, if slice => {
                awaited = None;
                granted = Some(permit.map_err(io::Error::other)?);
                session.grant_slice();
            }
            written = write(&mut writer, &mut out), if !out.is_empty() => written?,
            () = mailbox.notified() => {}
            Some(done) = reads.join_next(), if !reads.is_empty() => {
                let (ticket, read) = done.map_err(io::Error::other)?;
                session.supply(ticket, read);
            }
            read = receive(&mut reader, &mut session), if out.bytes() < OUTPUT_BYTES_HARD && !again => {
                if read? == 0 {
                    return Ok(());
                }
                session.heard(clock.mono());
            }
            () = tokio::task::yield_now(), if again => {}
            () = tokio::time::sleep(due) => {}
        }
    }
}

type SliceGrant = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// Leave to read one slice of recovery.
fn slice_grant(node: &Node) -> SliceGrant {
    Box::pin(Arc::clone(&node.slices).acquire_owned())
}

/// Cancelled without loss: bytes are in the session's buffer when this completes, or nowhere.
async fn receive<S: AsyncRead>(reader: &mut ReadHalf<S>, session: &mut Session) -> io::Result<usize> {
    reader.read_buf(session.frames().spare()).await
}

/// Cancelled without loss: what was written is taken from the output in the same poll.
async fn write<S: AsyncWrite>(writer: &mut WriteHalf<S>, out: &mut Output) -> io::Result<()> {
    let written = {
        let parts: Vec<IoSlice<'_>> = out.front(PARTS_MAX).map(|part| IoSlice::new(part)).collect();
        writer.write_vectored(&parts).await?
    };
    if written == 0 {
        return Err(io::ErrorKind::WriteZero.into());
    }
    out.consume(written);
    Ok(())
}

async fn farewell<S: AsyncWrite + Send>(writer: &mut WriteHalf<S>, out: &mut Output) -> io::Result<()> {
    let sent = tokio::time::timeout(FAREWELL, async {
        while !out.is_empty() {
            write(writer, out).await?;
        }
        writer.shutdown().await
    });
    sent.await.unwrap_or(Ok(()))
}
