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

/// Both artefacts.
pub fn artefacts() -> Done {
    java(BUS_POM)?;
    java(VOYAGE_POM)
}

/// `mvn verify` of the module with this `pom`, which calls [`native`].
pub fn java(pom: &str) -> Done {
    if !provision::java()? {
        return Ok(());
    }
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
