//! Running the binary, and servers of it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

use serde_json::Value;

/// The binary, not told anything by the environment of whoever runs the tests.
pub fn arioso(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arioso"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ARIOSO_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// What a command came to.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    fn of(output: Output) -> Ran {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// It ended with status 0 and said nothing on standard error.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// It ended with this status; standard error has all of these.
    #[track_caller]
    pub fn fails(self, code: i32, says: &[&str]) -> Ran {
        assert_eq!(self.code, Some(code), "{self:?}");
        for says in says {
            assert!(self.err.contains(says), "{says:?} is missing in {}", self.err);
        }
        self
    }

    /// Lines of standard output as JSON.
    pub fn json(&self) -> Vec<Value> {
        lines(&self.out)
    }
}

pub fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

pub fn run(arguments: &[&str]) -> Ran {
    Ran::of(arioso(arguments).output().unwrap())
}

/// Runs a command that is given something to read.
pub fn run_with_input(arguments: &[&str], input: &[u8]) -> Ran {
    let mut child =
        arioso(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that refuses its input closes the pipe early.
    let writes = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let ran = Ran::of(child.wait_with_output().unwrap());
    writes.join().unwrap();
    ran
}

pub fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

/// A server on ports of the system's choice; killed when dropped.
pub struct Server {
    child: Option<Child>,
    /// Where it listens.
    pub address: String,
    /// What it told when it was ready.
    pub ready: Value,
    log: PathBuf,
}

impl Server {
    /// Starts one and waits until it is ready.
    pub fn start(data: &Path) -> Server {
        Server::start_with(data, &[])
    }

    pub fn start_with(data: &Path, more: &[&str]) -> Server {
        let log = data.with_extension("log");
        let mut child = serve(data, more).stdout(Stdio::piped()).stderr(File::create(&log).unwrap()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{line:?}: {error}: {}", fs::read_to_string(&log).unwrap()));
        let address = ready["listen"].as_str().unwrap().to_owned();
        Server { child: Some(child), address, ready, log }
    }

    /// What it has told on standard error so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Runs a client command against it.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        run(&self.with_address(arguments))
    }

    pub fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Ran {
        run_with_input(&self.with_address(arguments), input)
    }

    /// Starts a client command against it; its output is read line by line.
    pub fn spawn(&self, arguments: &[&str]) -> Running {
        let mut child =
            arioso(&self.with_address(arguments)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Running { child, out: Some(out) }
    }

    fn with_address<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        let mut all = vec![arguments[0], "--server", &self.address];
        all.extend(&arguments[1..]);
        all
    }

    /// Waits until it ends by itself.
    pub fn wait(mut self) -> ExitStatus {
        self.child.take().unwrap().wait().unwrap()
    }

    /// SIGTERM, and how it ended.
    pub fn stop(mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        signal(&child, rustix::process::Signal::TERM);
        child.wait().unwrap()
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// `serve` with small segments on free ports.
pub fn serve(data: &Path, more: &[&str]) -> Command {
    let mut command = arioso(&["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--segment-bytes", "1MiB"]);
    command.arg("--data").arg(data).args(more);
    command
}

/// A command that runs.
pub struct Running {
    pub child: Child,
    pub out: Option<BufReader<ChildStdout>>,
}

impl Running {
    /// The next line, as JSON.
    pub fn line(&mut self) -> Value {
        let mut line = String::new();
        self.out.as_mut().unwrap().read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// How it ended, with what it said from here on.
    pub fn end(mut self) -> Ran {
        self.child.stdout = self.out.take().map(BufReader::into_inner);
        Ran::of(self.child.wait_with_output().unwrap())
    }
}
