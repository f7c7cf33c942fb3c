//! A throw-away PostgreSQL for tests and measurements: made in a temporary directory, started as an ordinary user, gone when
//! dropped.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where distributions put the server's programs.
const PLACES: &[&str] = &["/usr/lib/postgresql", "/usr/pgsql", "/opt/homebrew/opt/postgresql"];
/// How long a server may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(30);
/// The user that the server runs as when we are root, which it refuses to be.
const USERS: &[&str] = &["postgres", "nobody"];

/// A running server with an empty database, its data removed when dropped.
pub struct Cluster {
    bin: PathBuf,
    folder: PathBuf,
    port: u16,
    user: Option<(u32, u32)>,
    settings: Vec<String>,
    child: Option<Child>,
}

/// The directory of `initdb` and `postgres`, if PostgreSQL is installed: in the path, or where distributions put it, the
/// newest version first.
pub fn programs() -> Option<PathBuf> {
    let in_path =
        std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let mut versions: Vec<(u32, PathBuf)> = Vec::new();
    for entry in PLACES.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten() {
        let version = entry.file_name().to_string_lossy().parse().unwrap_or(0);
        versions.push((version, entry.path().join("bin")));
    }
    versions.sort();
    let known = versions.into_iter().rev().map(|(_, bin)| bin);
    // A link in the path stands for one program; the others lie where it leads.
    let real = |bin: PathBuf| fs::canonicalize(bin.join("postgres")).ok()?.parent().map(Path::to_path_buf);
    let whole = |bin: &PathBuf| ["initdb", "pg_isready", "psql"].iter().all(|program| bin.join(program).exists());
    in_path.chain(known).filter_map(real).find(whole)
}

impl Cluster {
    /// Makes and starts one in a new directory below `parent`. `settings` are `name=value` of the server's configuration.
    pub fn start(parent: &Path, settings: &[&str]) -> io::Result<Cluster> {
        let bin = programs().ok_or_else(|| {
            io::Error::other("PostgreSQL is not installed: initdb and postgres are wanted, version 15 or newer")
        })?;
        let free = TcpListener::bind(("127.0.0.1", 0))?;
        let port = free.local_addr()?.port();
        drop(free);
        let folder = parent.join(format!("arioso-postgres-{}-{port}", std::process::id()));
        fs::create_dir(&folder)?;
        let user = ordinary_user(&folder)?;
        let settings = settings.iter().map(ToString::to_string).collect();
        let mut cluster = Cluster { bin, folder, port, user, settings, child: None };
        if let Some((uid, gid)) = user {
            chown(&cluster.folder, Some(uid), Some(gid))?;
        }
        let data = cluster.data();
        let arguments: [&OsStr; 8] = [
            "--no-sync".as_ref(),
            "--auth=trust".as_ref(),
            "--username=arioso".as_ref(),
            "--encoding=UTF8".as_ref(),
            "--locale=C".as_ref(),
            "--no-instructions".as_ref(),
            "-D".as_ref(),
            data.as_ref(),
        ];
        let made = cluster.command("initdb").args(arguments).output()?;
        if !made.status.success() {
            return Err(io::Error::other(format!("initdb: {}", String::from_utf8_lossy(&made.stderr))));
        }
        cluster.run()?;
        Ok(cluster)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The directory of the data, and of what else the server is to write.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of its database.
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// The same behind another port, such as a proxy's.
    pub fn url_at(&self, port: u16) -> String {
        format!("postgres://arioso@127.0.0.1:{port}/postgres")
    }

    /// The process id of the server.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.current_dir(&self.folder).stdin(Stdio::null());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Starts the server, and waits until it answers.
    pub fn run(&mut self) -> io::Result<()> {
        let log = fs::File::create(self.folder.join("log"))?;
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        let fixed =
            ["listen_addresses=127.0.0.1", "unix_socket_directories=", "shared_buffers=64MB", "max_connections=100"];
        for setting in fixed.into_iter().chain(self.settings.iter().map(String::as_str)) {
            command.args(["-c", setting]);
        }
        let mut child = command.stdout(Stdio::null()).stderr(log).spawn()?;
        let began = Instant::now();
        while !self.answers() {
            if let Some(status) = child.try_wait()? {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("postgres ended with {status}: {log}")));
            }
            if began.elapsed() > PATIENCE {
                child.kill()?;
                return Err(io::Error::other("postgres does not answer"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.child = Some(child);
        Ok(())
    }

    fn answers(&self) -> bool {
        let asked = Command::new(self.bin.join("pg_isready"))
            .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "arioso", "-d", "postgres"])
            .status();
        asked.is_ok_and(|status| status.success())
    }

    /// Ends the server at once, as a crash does: no checkpoint, connections cut.
    pub fn kill(&mut self) -> io::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let quit = Command::new("kill").args(["-QUIT", &child.id().to_string()]).status()?;
        if !quit.success() {
            child.kill()?;
        }
        child.wait().map(drop)
    }

    /// Runs a statement and gives its first column, a row a line.
    pub fn sql(&self, statement: &str) -> io::Result<String> {
        let port = self.port.to_string();
        let done = Command::new(self.bin.join("psql"))
            .args([
                "-h",
                "127.0.0.1",
                "-p",
                &port,
                "-U",
                "arioso",
                "-d",
                "postgres",
                "-XAtq",
                "-v",
                "ON_ERROR_STOP=1",
                "-c",
                statement,
            ])
            .output()?;
        if done.status.success() {
            Ok(String::from_utf8_lossy(&done.stdout).trim().to_string())
        } else {
            Err(io::Error::other(format!("{statement}: {}", String::from_utf8_lossy(&done.stderr))))
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // What can't be ended or removed is of no use to anybody.
        let _ = self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Whom the server is to run as: nobody else, unless we are root.
fn ordinary_user(own: &Path) -> io::Result<Option<(u32, u32)>> {
    if fs::metadata(own)?.uid() != 0 {
        return Ok(None);
    }
    let passwd = fs::read_to_string("/etc/passwd")?;
    let find = |wanted: &&str| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(*wanted))?;
        let mut fields = line.split(':').skip(2).map(str::parse);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    };
    let found = USERS.iter().find_map(find);
    found
        .map(Some)
        .ok_or_else(|| io::Error::other("PostgreSQL does not run as root, and there is no user postgres or nobody"))
}
