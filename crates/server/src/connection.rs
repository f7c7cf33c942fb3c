//! Drives one session on a socket (or on a pipe inside the process): reads, writes, disk reads, time, wake-ups.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::watch;
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
    let mailbox = Arc::clone(session.mailbox());
    let mut out = Output::default();
    let mut reads: JoinSet<(Ticket, Result<Supplied, String>)> = JoinSet::new();
    loop {
        let wishes = session.turn(clock.now(), &mut out);
        let Wishes { reads: wanted, again, close } = wishes;
        if close {
            return farewell(&mut writer, &mut out).await;
        }
        for Read { ticket, request } in wanted {
            let node = Arc::clone(&node);
            reads.spawn_blocking(move || (ticket, node.read(&request)));
        }
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
