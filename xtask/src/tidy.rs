//! Rules that the compiler does not hold: which crate may use which, what the deterministic core may not touch, how long a
//! file may be.

use std::fs;
use std::path::{Path, PathBuf};

/// The rows of ARCHITECTURE.md, bottom first. A crate may use only rows below its own.
const ROWS: &[&[&str]] = &[
    &["arioso-stream", "arioso-disk"],
    &["arioso-wire", "arioso-store"],
    &["arioso-journal"],
    &["arioso-server", "arioso-client"],
    &["arioso"],
    &["arioso-lab"],
    &["arioso-cli", "arioso-sim"],
    &["arioso-voyage", "arioso-jvm", "arioso-voyage-jvm"],
];

/// The top row sees the facade and itself, nothing else of ours.
const TOP_ROW_MAY_USE: &[&str] = &["arioso", "arioso-voyage"];

/// Crates that are plain computation, handed time, disk and network.
const CORE: &[&str] = &["crates/stream", "crates/wire", "crates/store", "crates/journal"];

/// What the core may not name.
const NOT_IN_CORE: &[&str] =
    &["Instant::now", "SystemTime::now", "std::thread", "std::net", "tokio::", "thread::spawn", "thread::sleep"];

/// Backends of the journal that talk to a database do so on a thread of their own.
const OUTSIDE_CORE: &[&str] = &["crates/journal/src/postgres"];

/// A file longer than this has a second subject.
const LINES_MAX: usize = 700;

/// Everything that is wrong below `root`, a line each.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    for manifest in manifests(root)? {
        arrows(root, &manifest, &mut wrong)?;
    }
    for file in sources(root)? {
        source(root, &file, &mut wrong)?;
    }
    Ok(wrong)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn manifests(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for folder in ["crates", "apps", "bindings/java"] {
        let Ok(entries) = fs::read_dir(root.join(folder)) else { continue };
        for entry in entries {
            let manifest = entry.map_err(|error| format!("{folder}: {error}"))?.path().join("Cargo.toml");
            if manifest.exists() {
                found.push(manifest);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn row(name: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.contains(&name))
}

fn arrows(root: &Path, manifest: &Path, wrong: &mut Vec<String>) -> Result<(), String> {
    let text = read(manifest)?;
    let shown = manifest.strip_prefix(root).unwrap_or(manifest).display();
    let table: toml::Table = text.parse().map_err(|error| format!("{shown}: {error}"))?;
    let name = table.get("package").and_then(|p| p.get("name")).and_then(|n| n.as_str()).unwrap_or_default();
    let Some(own) = row(name) else {
        wrong.push(format!("{shown}: crate {name} has no row; add it to ROWS and to ARCHITECTURE.md"));
        return Ok(());
    };
    let dependencies = table.get("dependencies").and_then(|d| d.as_table());
    for used in dependencies.into_iter().flat_map(|d| d.keys()).filter(|key| key.starts_with("arioso")) {
        let top = own == ROWS.len() - 1;
        let allowed = match row(used) {
            Some(_) if top => TOP_ROW_MAY_USE.contains(&used.as_str()),
            Some(below) => below < own,
            None => false,
        };
        if !allowed {
            wrong.push(format!("{shown}: {name} uses {used}, which is not in a row below its own"));
        }
    }
    for (key, value) in dependencies.into_iter().flatten() {
        if value.get("workspace").is_none() && !key.starts_with("arioso") {
            wrong.push(format!("{shown}: dependency {key} is not declared once, in the workspace"));
        }
    }
    Ok(())
}

fn sources(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut open: Vec<PathBuf> = ["crates", "apps", "bindings", "xtask"].iter().map(|f| root.join(f)).collect();
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
            if path.is_dir() && !path.ends_with("target") {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn source(root: &Path, file: &Path, wrong: &mut Vec<String>) -> Result<(), String> {
    let text = read(file)?;
    let relative = file.strip_prefix(root).unwrap_or(file);
    let shown = relative.display();
    if !text.starts_with("//!") && !is_test(relative) {
        wrong.push(format!("{shown}: begins without a header that says what it holds"));
    }
    let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").count();
    if lines > LINES_MAX && !is_test(relative) {
        wrong.push(format!("{shown}: {lines} lines without tests, over {LINES_MAX}: it has a second subject"));
    }
    let core = CORE.iter().any(|core| relative.starts_with(core));
    let outside = OUTSIDE_CORE.iter().any(|folder| relative.starts_with(folder));
    if core && !outside && !is_test(relative) {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for banned in NOT_IN_CORE.iter().filter(|banned| line.contains(**banned)) {
                wrong.push(format!("{shown}:{}: the core names {banned}", number + 1));
            }
        }
    }
    Ok(())
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "examples")
        || path.file_stem().and_then(|s| s.to_str()).is_some_and(|s| s == "tests" || s.ends_with("_tests"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plant(files: &[(&str, &str)]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        check(root.path()).unwrap()
    }

    #[test]
    fn the_repository_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert_eq!(check(root).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_that_points_up_is_found() {
        let found = plant(&[(
            "crates/stream/Cargo.toml",
            "[package]\nname = \"arioso-stream\"\n[dependencies]\narioso-wire.workspace = true\n",
        )]);
        assert_eq!(
            found,
            ["crates/stream/Cargo.toml: arioso-stream uses arioso-wire, which is not in a row below its own"]
        );
    }

    #[test]
    fn a_clock_in_the_core_is_found_but_not_in_its_tests() {
        let found = plant(&[
            ("crates/store/src/a.rs", "//! A.\nlet t = Instant::now();\n"),
            ("crates/store/src/b.rs", "//! B.\n#[cfg(test)]\nmod tests { fn t() { Instant::now(); } }\n"),
            ("crates/server/src/c.rs", "//! C.\nlet t = Instant::now();\n"),
            ("crates/journal/src/postgres/d.rs", "//! D.\nlet t = Instant::now();\n"),
        ]);
        assert_eq!(found, ["crates/store/src/a.rs:2: the core names Instant::now"]);
    }

    #[test]
    fn a_dependency_declared_in_a_crate_is_found() {
        let found = plant(&[(
            "crates/stream/Cargo.toml",
            "[package]\nname = \"arioso-stream\"\n[dependencies]\nbytes = \"1\"\n",
        )]);
        assert_eq!(found, ["crates/stream/Cargo.toml: dependency bytes is not declared once, in the workspace"]);
    }
}
