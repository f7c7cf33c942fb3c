//! How commands reach the server, and how their failures read.

use std::time::Duration;

use arioso::{Bus, Options};

use crate::args::At;
use crate::fail::Failure;

/// Connects, or says what to do.
pub fn connect(at: &At) -> Result<Bus, Failure> {
    if !(at.connect_timeout > 0.0 && at.connect_timeout <= 86_400.0) {
        let value = at.connect_timeout;
        return Err(Failure::Use(format!("--connect-timeout {value}: seconds from above 0 to 86400 are wanted")));
    }
    let timeout = Duration::from_secs_f64(at.connect_timeout);
    let options = Options {
        name: "arioso".into(),
        connect_timeout: timeout,
        unreachable_after: Some(timeout),
        ..Options::default()
    };
    let server = &at.server;
    Bus::connect_with(server, options).map_err(|error| {
        let text = format!("{server}: {error}; is a server running there? arioso serve starts one, --server or ARIOSO_SERVER names another");
        Failure::Failed(text)
    })
}

/// A failure of a command on a server.
pub fn failed(at: &At, what: &str) -> impl Fn(arioso::Error) -> Failure {
    let (server, what) = (at.server.clone(), what.to_string());
    move |error| Failure::Failed(format!("{what} at {server}: {error}"))
}
