//! What the tests need of the machine beside Rust: PostgreSQL, installed through the system's package manager where it is
//! missing and `CI` is set.

use std::path::Path;
use std::process::Command;

/// Where Debian and others put the programs of a version.
const PLACES: &[&str] = &["/usr/lib/postgresql", "/usr/pgsql"];

/// A package manager, what makes its lists new, and what installs PostgreSQL.
const MANAGERS: &[(&str, &[&str], &[&str])] = &[
    ("apt-get", &["update"], &["install", "-y", "--no-install-recommends", "postgresql"]),
    ("dnf", &["makecache"], &["install", "-y", "postgresql-server"]),
    ("apk", &["update"], &["add", "postgresql", "postgresql-client"]),
];

/// Whether `initdb` is there.
fn installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).any(|folder| folder.join("initdb").exists());
    let versions = PLACES.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten().flatten();
    in_path || versions.map(|version| version.path().join("bin/initdb")).any(|initdb| initdb.exists())
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

/// Sees to it that PostgreSQL is there. Elsewhere than in CI a machine is left as it is: the tests name what they omit.
pub fn postgres() -> Result<(), String> {
    if installed() {
        return Ok(());
    }
    if std::env::var_os("CI").is_none() {
        println!("xtask: PostgreSQL is not installed: its tests are omitted (with CI set it would be installed)");
        return Ok(());
    }
    let Some((manager, update, install)) = MANAGERS.iter().find(|(manager, ..)| in_path(manager)) else {
        return Err("PostgreSQL is not installed, and there is none of apt-get, dnf and apk to install it with".into());
    };
    // Lists that are new enough already need not be made new.
    run(manager, install).or_else(|_| run(manager, update).and_then(|()| run(manager, install)))?;
    if installed() { Ok(()) } else { Err(format!("{manager} installed PostgreSQL, and there is no initdb")) }
}
