//! The client over a socket, on tokio: one task drives the state machine, handles talk to it through one short lock that
//! is never held across I/O.
//!
//! ```text
//! Publisher, Subscription, Client ──lock──▶ Core { Connection, receipts, queues } ◀──lock── task ◀──▶ socket
//!                                   kick ───────────────────────────────────────────────▶
//! ```

mod client;
mod core;
mod drive;
mod publisher;
mod receipt;
mod route;
mod subscription;
#[cfg(test)]
mod tests;

pub use client::{Client, Page};
pub use publisher::Publisher;
pub use receipt::Receipt;
pub use route::Route;
pub use subscription::{Delivery, Subscription};
