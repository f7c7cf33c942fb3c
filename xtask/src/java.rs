//! The part of the check that concerns the JVM: the native library put where the jar is made from, and Maven, which builds the
//! jar and runs its tests, on the default JDK and on the newest installed one.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::provision;
use crate::steps::{Done, root, run};

/// The oldest JDK that the binding runs on.
const JAVA_MIN: u32 = 17;
/// Where the second build goes.
const TARGET_AGAIN: &str = "bindings/java/target/again";

/// Where cargo puts what it builds for release.
fn release(name: &str) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    root().join(target).join("release").join(name)
}

/// The bus on the JVM.
pub const BUS_POM: &str = "bindings/java/pom.xml";
/// The path finder on the JVM.
pub const VOYAGE_POM: &str = "apps/voyage-jvm/pom.xml";

/// Builds the native library of the crate `package`, release, and copies it into `directory`, by platform, as the jar holds
/// it.
pub fn native(package: &str, directory: &str) -> Done {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    // Debug information stays in the object files; a user's jar would be ten times as large with it.
    let build = ["rustc", "--release", "-p", package, "--lib", "--", "-C", "strip=debuginfo"];
    run(&cargo, &build, &[])?;
    let (prefix, suffix) = (env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let name = format!("{prefix}{}{suffix}", package.replace('-', "_"));
    let from = release(&name);
    let platform = format!("{}-{}", env::consts::OS, env::consts::ARCH);
    let to = Path::new(directory).join("META-INF/native").join(platform);
    let failed = |error| format!("{} to {}: {error}", from.display(), to.display());
    fs::create_dir_all(&to).map_err(failed)?;
    fs::copy(&from, to.join(name)).map_err(failed)?;
    Ok(())
}

/// Builds the command line, release, and copies it into `directory`, for tests that connect.
pub fn server(directory: &str) -> Done {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    run(&cargo, &["build", "--release", "-p", "arioso-cli"], &[])?;
    let name = format!("arioso{}", env::consts::EXE_SUFFIX);
    let (from, to) = (release(&name), Path::new(directory).join(&name));
    // A server that still runs keeps its file; this one gets its name.
    let _ = fs::remove_file(&to);
    fs::copy(&from, &to).map(|_| ()).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

/// Both artefacts.
pub fn artefacts() -> Done {
    bus()?;
    voyage()
}

/// The path finder's artefact: its tests on the default JDK, then on the newest installed one.
pub fn voyage() -> Done {
    if !provision::java()? {
        return Ok(());
    }
    maven(VOYAGE_POM, &["verify"])?;
    match newer_java() {
        Some(jvm) => maven(VOYAGE_POM, &["-Dmaven.javadoc.skip=true", &jvm, "verify"]),
        None => Ok(()),
    }
}

/// The bus's artefact: the tests on the default JDK, then, in a directory of its own, on the newest installed one. Both builds
/// must give the same bytes.
pub fn bus() -> Done {
    if !provision::java()? {
        return Ok(());
    }
    maven(BUS_POM, &["verify"])?;
    let again = format!("-Darioso.target={}", root().join(TARGET_AGAIN).display());
    match newer_java() {
        Some(jvm) => maven(BUS_POM, &[&again, &jvm, "verify"])?,
        None => maven(BUS_POM, &[&again, "-DskipTests=true", "verify"])?,
    }
    same_jars()
}

/// The tests at full length: 10,000 times opened and closed, 100 million messages.
pub fn java_long() -> Done {
    maven(BUS_POM, &["-Dmaven.javadoc.skip=true", "-Darioso.rounds=10000", "-Darioso.messages=100000000", "verify"])
}

/// What a JVM does against the Rust client on the same bus, and what a crossing costs by itself.
pub fn java_bench(messages: &str) -> Done {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    run(&cargo, &["build", "--release", "-p", "arioso-jvm", "--example", "rates"], &[])?;
    maven(BUS_POM, &["-DskipTests=true", "package"])?;
    let rates = release("examples/rates").display().to_string();
    let bus = root().join("target/java-bench");
    let place = bus.display().to_string();
    let _ = fs::remove_dir_all(&bus);
    fs::create_dir_all(&bus).map_err(|error| format!("{place}: {error}"))?;
    run(&rates, &["fill", &place, messages, "32"], &[])?;
    let benchmark = |what: &str| {
        let (bus, what) = (format!("-Dbench.bus={place}"), format!("-Dbench.arguments={what}"));
        maven(BUS_POM, &[&bus, &what, "exec:exec@bench"])
    };
    // One behind the other, twice: what else the machine does falls on both.
    for _ in 0..2 {
        run(&rates, &["replay", &place, "3"], &[])?;
        benchmark("Replay")?;
    }
    for (count, block) in [("2000", "1"), ("1000000", "10"), ("2000000", "1000")] {
        for bytes in ["32", "200"] {
            run(&rates, &["publish", &place, count, bytes, block], &[])?;
        }
    }
    benchmark("Publish")?;
    benchmark("Crossing")?;
    fs::remove_dir_all(&bus).map_err(|error| format!("{place}: {error}"))
}

fn maven(pom: &str, arguments: &[&str]) -> Done {
    run("mvn", &[&["-q", "--batch-mode", "-f", pom], arguments].concat(), &[])
}

/// What tells Maven to run the tests on the newest installed JDK, if it is newer than the default one.
fn newer_java() -> Option<String> {
    match newest_java() {
        Some((version, java)) if version > default_java() => {
            println!("xtask: the same on Java {version}");
            Some(format!("-Dtest.jvm={}", java.display()))
        }
        _ => {
            println!("xtask: no newer JDK beside the default one is installed; the tests ran on one");
            None
        }
    }
}

/// The jars of both builds have the same bytes.
fn same_jars() -> Done {
    let (first, again) = (root().join("bindings/java/target"), root().join(TARGET_AGAIN));
    let mut jars = 0;
    for entry in fs::read_dir(&again).map_err(|error| format!("{}: {error}", again.display()))?.flatten() {
        let name = entry.file_name();
        if Path::new(&name).extension().is_none_or(|extension| extension != "jar") {
            continue;
        }
        let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        if read(&first.join(&name))? != read(&entry.path())? {
            return Err(format!("{}: built twice, it has other bytes each time", name.display()));
        }
        jars += 1;
    }
    if jars < 3 {
        return Err(format!("{}: {jars} jars, want three", again.display()));
    }
    println!("xtask: {jars} jars, built twice, have the same bytes");
    Ok(())
}

/// The version that `java -version` tells, such as 17.
fn version(java: &Path) -> Option<u32> {
    let told = Command::new(java).arg("-version").output().ok()?;
    let text = String::from_utf8_lossy(&told.stderr).into_owned();
    let quoted = text.split('"').nth(1)?;
    quoted.split(['.', '-', '+']).next()?.parse().ok()
}

fn default_java() -> u32 {
    let home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
    version(&home.unwrap_or_else(|| "java".into())).unwrap_or(JAVA_MIN)
}

/// The newest JDK where Linux distributions put them.
fn newest_java() -> Option<(u32, PathBuf)> {
    let homes = fs::read_dir("/usr/lib/jvm").ok()?;
    let javas = homes.filter_map(|home| Some(home.ok()?.path().join("bin/java")));
    javas.filter_map(|java| Some((version(&java)?, java))).max()
}
