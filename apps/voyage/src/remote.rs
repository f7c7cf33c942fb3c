//! The path finder behind HTTP, asked as ordinary clients ask: connections are kept and shared, what is refused or
//! cut is tried again after a wait that doubles.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

use crate::error::{Error, Result};
use crate::model::Feasible;
use crate::sea::router::{Verdict, Voyage};

/// Most bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 1 << 24;

/// How often and how fast a question is asked again.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Longest that one try may take.
    pub timeout: Duration,
    /// The first wait between two tries; it doubles each time.
    pub wait: Duration,
    /// The longest wait.
    pub wait_max: Duration,
    /// Tries before it is given up.
    pub tries_max: u32,
    /// Whether connections are kept for the next question.
    pub keep: bool,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            wait: Duration::from_millis(20),
            wait_max: Duration::from_secs(1),
            tries_max: 20,
            keep: true,
        }
    }
}

/// Most connections kept while nobody uses them.
const IDLE_MAX: usize = 256;

/// A web service.
#[derive(Debug)]
pub struct Remote {
    address: SocketAddr,
    patience: Patience,
    agent: Agent,
    retries: AtomicU64,
}

impl Remote {
    /// The service at `address`.
    #[must_use]
    pub fn new(address: SocketAddr, patience: Patience) -> Self {
        let idle = if patience.keep { IDLE_MAX } else { 0 };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(patience.timeout))
            .max_idle_connections(idle)
            .max_idle_connections_per_host(idle)
            .build();
        Self { address, patience, agent: config.into(), retries: AtomicU64::new(0) }
    }

    /// Tries beyond the first of each question.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// One try: status and body.
    fn once(&self, path: &str, body: &[u8]) -> std::result::Result<(u16, Vec<u8>), ureq::Error> {
        let mut request =
            self.agent.post(format!("http://{}{path}", self.address)).header("content-type", "application/json");
        if !self.patience.keep {
            request = request.header("connection", "close");
        }
        let mut response = request.send(body)?;
        let answer = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
        Ok((response.status().as_u16(), answer))
    }

    /// Posts `question` until it is answered: the status and the JSON of the answer.
    pub fn post(&self, path: &str, question: &Value) -> Result<(u16, Value)> {
        let body = question.to_string().into_bytes();
        let mut wait = self.patience.wait;
        let mut last = String::new();
        for again in 0..self.patience.tries_max {
            if again > 0 {
                self.retries.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(wait);
                wait = (wait * 2).min(self.patience.wait_max);
            }
            match self.once(path, &body) {
                Ok((503, _)) => "503, too many requests".clone_into(&mut last),
                Ok((status, answer)) => match serde_json::from_slice(&answer) {
                    Ok(answer) => return Ok((status, answer)),
                    Err(error) => return Err(Error::Ask(format!("{}: {error}", self.address))),
                },
                Err(error) => last = error.to_string(),
            }
        }
        Err(Error::Ask(format!("{}: no answer after {} tries: {last}", self.address, self.patience.tries_max)))
    }
}

impl Feasible for Remote {
    fn feasible(&self, voyage: &Voyage) -> Result<Verdict> {
        let question = json!({
            "position": voyage.position, "time": voyage.time, "destination": voyage.destination,
            "arrival": voyage.arrival, "max_speed_knots": voyage.max_knots,
        });
        let (status, answer) = self.post("/api/feasible", &question)?;
        if status == 200 {
            return serde_json::from_value(answer).map_err(|e| Error::Ask(format!("{}: {e}", self.address)));
        }
        let told = answer["error"].as_str().unwrap_or("no reason told").to_owned();
        // What the finder refuses in process with these is refused with 422 over HTTP.
        if status == 422 {
            return Err(Error::NoRoute { from: voyage.position, to: voyage.destination });
        }
        Err(Error::Ask(format!("{}: {status}: {told}", self.address)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// A service that gives `answers`, each on a connection of its own, to whatever it is asked.
    fn service(answers: Vec<&'static str>) -> (SocketAddr, std::thread::JoinHandle<()>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            for answer in answers {
                let mut stream = listener.accept().unwrap().0;
                let (mut bytes, mut asked) = ([0; 4096], Vec::new());
                while !asked.ends_with(b"{}") {
                    let read = stream.read(&mut bytes).unwrap();
                    assert!(read > 0, "the question was cut");
                    asked.extend_from_slice(&bytes[..read]);
                }
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        (address, thread)
    }

    fn patience(tries_max: u32) -> Patience {
        Patience { wait: Duration::from_millis(1), keep: false, tries_max, ..Patience::default() }
    }

    const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}";

    #[test]
    fn what_is_refused_or_cut_is_asked_again_until_it_is_answered() {
        let (address, thread) =
            service(vec![BUSY, "HTTP/1.1", "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}"]);
        let remote = Remote::new(address, patience(5));
        assert_eq!(remote.post("/x", &json!({})).unwrap(), (200, json!({ "a": 1 })));
        assert_eq!(remote.retries(), 2);
        thread.join().unwrap();
    }

    #[test]
    fn a_service_that_never_answers_is_given_up_and_named() {
        let (address, thread) = service(vec![BUSY, BUSY]);
        let error = Remote::new(address, patience(2)).post("/x", &json!({})).unwrap_err().to_string();
        assert_eq!(error, format!("{address}: no answer after 2 tries: 503, too many requests"));
        thread.join().unwrap();
    }
}
