//! The path finder behind HTTP, asked as ordinary clients ask: connections are kept and shared, what is refused or
//! cut is tried again after a wait that doubles.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::model::Feasible;
use crate::sea::router::{Verdict, Voyage};

/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 24;

/// Most bytes of an answer's head.
const HEAD_BYTES_MAX: u64 = 1 << 16;

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

/// A web service.
#[derive(Debug)]
pub struct Remote {
    address: SocketAddr,
    patience: Patience,
    idle: Mutex<Vec<BufReader<TcpStream>>>,
    retries: AtomicU64,
}

/// Most connections kept while nobody uses them.
const IDLE_MAX: usize = 256;

impl Remote {
    /// The service at `address`.
    #[must_use]
    pub fn new(address: SocketAddr, patience: Patience) -> Self {
        Self { address, patience, idle: Mutex::default(), retries: AtomicU64::new(0) }
    }

    /// Tries beyond the first of each question.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<BufReader<TcpStream>>> {
        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn connection(&self) -> std::io::Result<BufReader<TcpStream>> {
        if let Some(kept) = self.idle().pop() {
            return Ok(kept);
        }
        let stream = TcpStream::connect_timeout(&self.address, self.patience.timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.patience.timeout))?;
        stream.set_write_timeout(Some(self.patience.timeout))?;
        Ok(BufReader::new(stream))
    }

    /// One try: status and body.
    fn once(&self, path: &str, body: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
        let mut connection = self.connection()?;
        let close = if self.patience.keep { "" } else { "Connection: close\r\n" };
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{close}Content-Length: {}\r\n\r\n",
            self.address,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        connection.get_mut().write_all(&request)?;
        let (status, length) = head(&mut connection)?;
        let mut answer = vec![0; length];
        connection.read_exact(&mut answer)?;
        if self.patience.keep {
            let mut idle = self.idle();
            if idle.len() < IDLE_MAX {
                idle.push(connection);
            }
        }
        Ok((status, answer))
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

fn head(connection: &mut BufReader<TcpStream>) -> std::io::Result<(u16, usize)> {
    let wrong = |what: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned());
    let mut head = connection.take(HEAD_BYTES_MAX);
    let mut line = String::new();
    head.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(|| wrong("not HTTP"))?;
    let mut length = None;
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            return Err(wrong("the answer ends in its head"));
        }
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok();
        }
    }
    let length = length.filter(|n| *n <= ANSWER_BYTES_MAX).ok_or_else(|| wrong("no length, or too long"))?;
    Ok((status, length))
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
    use super::*;

    /// A service that gives `answers`, each on a connection of its own, to whatever it is asked.
    fn service(answers: Vec<&'static str>) -> (SocketAddr, std::thread::JoinHandle<()>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            for answer in answers {
                let mut stream = listener.accept().unwrap().0;
                let mut bytes = [0; 4096];
                assert!(stream.read(&mut bytes).unwrap() > 0);
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
