//! How a client gets to its server: a socket, or a pipe inside the process.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpStream;

/// A way to a server, taken again whenever the connection was cut.
#[derive(Clone)]
pub struct Route(Kind);

#[derive(Clone)]
enum Kind {
    Address(Arc<str>),
    Pipe(Arc<dyn Fn() -> io::Result<DuplexStream> + Send + Sync>),
}

/// A way that was taken.
pub(crate) type Stream = Box<dyn Duplex>;

/// Bytes both ways.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

impl Route {
    /// Over TCP to `host:port`.
    pub fn address(address: impl Into<String>) -> Route {
        Route(Kind::Address(address.into().into()))
    }

    /// Through pipes whose other ends are served inside this process.
    pub fn pipe(open: impl Fn() -> io::Result<DuplexStream> + Send + Sync + 'static) -> Route {
        Route(Kind::Pipe(Arc::new(open)))
    }

    pub(crate) async fn open(&self) -> io::Result<Stream> {
        match &self.0 {
            Kind::Address(address) => {
                let socket = TcpStream::connect(&**address).await?;
                // Small frames are gathered already; a delayed answer helps nobody.
                socket.set_nodelay(true)?;
                Ok(Box::new(socket))
            }
            Kind::Pipe(open) => Ok(Box::new(open()?)),
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Address(address) => f.write_str(address),
            Kind::Pipe(_) => f.write_str("this process"),
        }
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Route({self})")
    }
}
