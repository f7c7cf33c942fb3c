//! The part of the check that concerns the JVM: the native library put where the jar is made from, and Maven, which builds the
//! jar and runs its tests, on the default JDK and on the newest installed one.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::steps::{Done, root, run};

/// The oldest JDK that the binding runs on.
const JAVA_MIN: u32 = 17;

/// Builds the native library of the crate `package`, release, and copies it into `directory`, by platform, as the jar holds
/// it.
pub fn native(package: &str, directory: &str) -> Done {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    // Debug information stays in the object files; a user's jar would be ten times as large with it.
    let build = ["rustc", "--release", "-p", package, "--lib", "--", "-C", "strip=debuginfo"];
    run(&cargo, &build, &[])?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let (prefix, suffix) = (env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let name = format!("{prefix}{}{suffix}", package.replace('-', "_"));
    let from = root().join(target).join("release").join(&name);
    let platform = format!("{}-{}", env::consts::OS, env::consts::ARCH);
    let to = Path::new(directory).join("META-INF/native").join(platform);
    let failed = |error| format!("{} to {}: {error}", from.display(), to.display());
    fs::create_dir_all(&to).map_err(failed)?;
    fs::copy(&from, to.join(name)).map_err(failed)?;
    Ok(())
}

/// `mvn verify` of the module with this `pom`, which calls [`native`].
pub fn java(pom: &str) -> Done {
    install_missing()?;
    run("mvn", &["-q", "--batch-mode", "-f", pom, "verify"], &[])?;
    match newest_java() {
        Some((version, java)) if version > default_java() => {
            let jvm = format!("-Dtest.jvm={}", java.display());
            let arguments = ["-q", "--batch-mode", "-f", pom, "-Dmaven.javadoc.skip=true", &jvm, "verify"];
            run("mvn", &arguments, &[])
        }
        _ => {
            println!("xtask: no newer JDK beside the default one is installed; the tests ran on one");
            Ok(())
        }
    }
}

fn runs(program: &str, argument: &str) -> bool {
    let quiet = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

/// A JDK and Maven, through the system's package manager, where they are missing.
fn install_missing() -> Done {
    if runs("javac", "-version") && runs("mvn", "-version") {
        return Ok(());
    }
    if !runs("apt-get", "--version") {
        return Err(format!(
            "a JDK {JAVA_MIN} or newer and Maven 3.8 or newer are wanted, and this system has no apt-get"
        ));
    }
    let quiet = [("DEBIAN_FRONTEND", "noninteractive".to_string())];
    run("apt-get", &["update", "-q"], &quiet)?;
    run("apt-get", &["install", "-q", "-y", "--no-install-recommends", "default-jdk-headless", "maven"], &quiet)
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
