//! A client of HTTP that is as plain as can be, and processes that end with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A process that is stopped when the test is over.
pub struct Running {
    child: Child,
    /// Host and port.
    pub address: String,
}

impl Running {
    /// Starts `command`; `address` finds where it listens in one of its first lines.
    pub fn start(mut command: Command, address: impl Fn(&str) -> Option<String>) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a process");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let found = lines.by_ref().map_while(Result::ok).find_map(|line| address(&line));
        std::thread::spawn(move || lines.for_each(drop));
        let Some(address) = found else {
            let _ = child.kill();
            panic!("{command:?} does not tell where it listens");
        };
        Running { child, address }
    }

    /// `voyage serve` with more options.
    pub fn service(options: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_voyage"));
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(options);
        Running::start(command, |line| line.strip_prefix("listening on http://").map(str::to_owned))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection with one request on it. One whose body is still to come waits for "continue".
pub fn send(address: &str, method: &str, path: &str, body: &str, bytes_told: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let expect = if body.len() < bytes_told { "Expect: 100-continue\r\n" } else { "" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{expect}Content-Type: application/json\r\nContent-Length: {bytes_told}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("a request sent");
    stream
}

/// Status, head and body of the answer.
pub fn receive(stream: TcpStream) -> (u16, String, String) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line of the head");
        if let Some((name, value)) = line.split_once(':').filter(|(n, _)| n.eq_ignore_ascii_case("content-length")) {
            length = Some(value.trim().parse::<usize>().unwrap_or_else(|_| panic!("{name}: {value}")));
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length.expect("a length")];
    reader.read_exact(&mut body).expect("the body");
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    (status, head.to_lowercase(), String::from_utf8(body).expect("text"))
}

/// Asks and parses the JSON that is answered.
pub fn ask(address: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let (status, _, text) = receive(send(address, method, path, body, body.len()));
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}
