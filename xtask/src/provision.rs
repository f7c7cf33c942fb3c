//! What the check needs of the machine beside Rust: PostgreSQL, a JDK and Maven, installed through the system's package manager
//! where they are missing and `CI` is set.

use std::path::Path;
use std::process::{Command, Stdio};

/// Where Debian and others put the programs of a version.
const PLACES: &[&str] = &["/usr/lib/postgresql", "/usr/pgsql"];

/// A package manager, and what it calls the packages.
struct Manager {
    program: &'static str,
    /// Makes its lists new.
    update: &'static [&'static str],
    install: &'static [&'static str],
    postgres: &'static [&'static str],
    java: &'static [&'static str],
}

const MANAGERS: &[Manager] = &[
    Manager {
        program: "apt-get",
        update: &["update", "-q"],
        install: &["install", "-q", "-y", "--no-install-recommends"],
        postgres: &["postgresql"],
        java: &["default-jdk-headless", "maven"],
    },
    Manager {
        program: "dnf",
        update: &["makecache"],
        install: &["install", "-y"],
        postgres: &["postgresql-server"],
        java: &["java-latest-openjdk-devel", "maven"],
    },
    Manager {
        program: "apk",
        update: &["update"],
        install: &["add"],
        postgres: &["postgresql", "postgresql-client"],
        java: &["openjdk17-jdk", "maven"],
    },
];

/// Whether `initdb` is there.
fn has_postgres() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).any(|folder| folder.join("initdb").exists());
    let versions = PLACES.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten().flatten();
    in_path || versions.map(|version| version.path().join("bin/initdb")).any(|initdb| initdb.exists())
}

fn has_java() -> bool {
    let runs = |program: &str, argument: &str| {
        let quiet = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
        quiet.is_ok_and(|status| status.success())
    };
    runs("javac", "-version") && runs("mvn", "-version")
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder: std::path::PathBuf| Path::new(&folder).join(program).exists())
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let shown = format!("{program} {}", arguments.join(" "));
    println!("xtask: {shown}");
    let status = Command::new(program).args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown}: can't start: {error}")),
    }
}

/// Sees to it that something is there; true if it is. Elsewhere than in CI a machine is left as it is.
fn provide(
    what: &str,
    is_there: fn() -> bool,
    packages: fn(&Manager) -> &'static [&'static str],
) -> Result<bool, String> {
    if is_there() {
        return Ok(true);
    }
    if std::env::var_os("CI").is_none() {
        println!("xtask: {what} is not installed: what needs it is omitted (with CI set it would be installed)");
        return Ok(false);
    }
    let Some(manager) = MANAGERS.iter().find(|manager| in_path(manager.program)) else {
        return Err(format!("{what} is not installed, and there is none of apt-get, dnf and apk to install it with"));
    };
    let install = [manager.install, packages(manager)].concat();
    // Lists that are new enough already need not be made new.
    run(manager.program, &install)
        .or_else(|_| run(manager.program, manager.update).and_then(|()| run(manager.program, &install)))?;
    if is_there() { Ok(true) } else { Err(format!("{} installed {what}, and it is not there", manager.program)) }
}

/// Sees to it that PostgreSQL is there. Where it is not, the tests name what they omit.
pub fn postgres() -> Result<(), String> {
    provide("PostgreSQL", has_postgres, |manager| manager.postgres).map(drop)
}

/// Sees to it that a JDK, 17 or newer, and Maven, 3.8 or newer, are there; true if they are.
pub fn java() -> Result<bool, String> {
    provide("a JDK with Maven", has_java, |manager| manager.java)
}
