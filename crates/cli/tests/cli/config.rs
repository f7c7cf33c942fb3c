//! Settings: where they come from, and how a bad one is refused.

use std::fs;

use arioso_server::settings::SETTINGS;

use crate::support::*;

/// A value that can't be right.
fn bad(name: &str) -> &'static str {
    match name {
        "data" | "stream-name" | "journal" => "",
        "segment-bytes" | "tip-bytes" => "12parsecs",
        "listen" => "0.0.0.0:7420",
        "http" => "localhost",
        "write-reply-ordering-groups" => "0",
        _ => "-3",
    }
}

#[test]
fn each_setting_is_refused_with_its_name_its_value_and_what_would_be_right() {
    for setting in SETTINGS {
        let (name, value) = (setting.name, bad(setting.name));
        if !setting.switch {
            let ran = run(&["serve", "--print-config", &format!("--{name}"), value]);
            let says = ran.fails(2, &[name, value]).err;
            let right = ["wanted", "insecure", "must be"];
            assert!(right.iter().any(|right| says.contains(right)), "{name}: {says}");
        }
        let ran = arioso(&["serve", "--print-config"]).env(setting.variable(), value).output().unwrap();
        let says = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{name}: {says}");
        assert!(says.contains(name) && says.contains(value), "{name}: {says}");
    }
}

#[test]
fn a_file_goes_before_the_defaults_a_variable_before_the_file_a_flag_before_both() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("arioso.toml");
    let text = "stream-name = \"from-file\"\ntip-bytes = 16777216\nsegment-bytes = \"2MiB\"\ninsecure = true\n";
    fs::write(&file, text).unwrap();
    let shown = arioso(&["serve", "--print-config", "--segment-bytes", "8MiB", "--config"])
        .arg(&file)
        .env("ARIOSO_TIP_BYTES", "32MiB")
        .env("ARIOSO_SEGMENT_BYTES", "4MiB")
        .env("ARIOSO_SOMETHING_ELSE", "ignored")
        .output()
        .unwrap();
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    let shown = String::from_utf8(shown.stdout).unwrap();
    for line in [
        "stream-name = \"from-file\"",
        "tip-bytes = 33554432",
        "segment-bytes = 8388608",
        "insecure = true",
        "payload-bytes-max = 16777216",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} is missing in {shown}");
    }
    // What is printed is a file of settings that says the same.
    fs::write(&file, &shown).unwrap();
    let again = run(&["serve", "--print-config", "--config", file.to_str().unwrap()]).ok();
    assert_eq!(again, shown);
    let by_variable = arioso(&["serve", "--print-config"]).env("ARIOSO_CONFIG", &file).output().unwrap();
    assert_eq!(String::from_utf8(by_variable.stdout).unwrap(), shown);
}

#[test]
fn a_file_with_an_unknown_key_or_a_value_of_another_kind_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("arioso.toml");
    let path = file.to_str().unwrap();
    for (text, says) in [
        ("colour = \"red\"\n", &["colour", "tip-bytes"][..]),
        ("[server]\ndata = \"x\"\n", &["server"]),
        ("tip-bytes = [1]\n", &["tip-bytes", "array"]),
        ("tip-bytes = 1\n", &["tip-bytes", "\"1\"", "8388608"]),
        ("tip-bytes = \n", &[]),
        ("listen = \"0.0.0.0:1\"\n", &["listen", "0.0.0.0:1", "insecure"]),
        (
            "write-reply-ordering-groups = 10001\n",
            &["write-reply-ordering-groups", "max-write-reply-ordering-groups", "10001", "10000"],
        ),
    ] {
        fs::write(&file, text).unwrap();
        run(&["serve", "--print-config", "--config", path]).fails(2, says);
    }
    run(&["serve", "--print-config", "--config", "/no/such/file"]).fails(2, &["/no/such/file"]);
    fs::write(&file, "write-reply-ordering-groups = \"per-publisher\"\n").unwrap();
    run(&["serve", "--print-config", "--config", path]).ok();
}

/// A setting's name and what it is set to, as text in a TOML file.
type Given = &'static [(&'static str, &'static str)];

/// Shows the settings with these given in a file, in the environment or as flags.
fn given(how: &str, settings: Given) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = arioso(&["serve", "--print-config"]);
    let bare = |value: &str| value.trim_matches('"').to_string();
    match how {
        "file" => {
            let file = dir.path().join("arioso.toml");
            let lines = settings.iter().map(|(name, value)| format!("{name} = {value}\n"));
            fs::write(&file, lines.collect::<String>()).unwrap();
            command.arg("--config").arg(file);
        }
        "variable" => {
            for (name, value) in settings {
                command.env(format!("ARIOSO_{}", name.replace('-', "_").to_uppercase()), bare(value));
            }
        }
        _ => {
            for (name, value) in settings {
                command.arg(format!("--{name}")).arg(bare(value));
            }
        }
    }
    let ran = command.output().unwrap();
    let text = if ran.status.success() { ran.stdout } else { ran.stderr };
    (ran.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn reply_groups_and_writes_in_flight_are_accepted_or_refused_alike_from_file_variable_and_flag() {
    const GROUPS: &str = "write-reply-ordering-groups";
    const MAX: &str = "max-write-reply-ordering-groups";
    const WRITES: &str = "max-writes-in-flight";
    let accepted: &[Given] = &[
        &[(GROUPS, "4")],
        &[(GROUPS, "\"4\"")],
        &[(GROUPS, "10000")],
        &[(GROUPS, "\"per-publisher\"")],
        &[(GROUPS, "20000"), (MAX, "20000")],
        &[(WRITES, "1")],
        &[(WRITES, "\"adaptive\"")],
    ];
    let refused: &[(Given, &str)] = &[
        (&[(GROUPS, "0")], "write-reply-ordering-groups is \"0\" and max-write-reply-ordering-groups is \"10000\""),
        (&[(GROUPS, "-3")], "write-reply-ordering-groups is \"-3\" and max-write-reply-ordering-groups is \"10000\""),
        (&[(GROUPS, "\"x\"")], "write-reply-ordering-groups is \"x\" and max-write-reply-ordering-groups is \"10000\""),
        (
            &[(GROUPS, "10001")],
            "write-reply-ordering-groups is \"10001\" and max-write-reply-ordering-groups is \"10000\"",
        ),
        (&[(MAX, "0")], "max-write-reply-ordering-groups is \"0\" and write-reply-ordering-groups is \"1\""),
        (
            &[(MAX, "0"), (GROUPS, "4")],
            "max-write-reply-ordering-groups is \"0\" and write-reply-ordering-groups is \"4\"",
        ),
        (&[(WRITES, "0")], "max-writes-in-flight is \"0\": it must be adaptive or a whole number"),
        (&[(WRITES, "\"many\"")], "max-writes-in-flight is \"many\": it must be adaptive or a whole number"),
    ];
    for how in ["file", "variable", "flag"] {
        for settings in accepted {
            let (code, shown) = given(how, settings);
            assert_eq!(code, Some(0), "{how} {settings:?}: {shown}");
            for (name, value) in *settings {
                let value = value.trim_matches('"');
                let shows = |line: &str| line == format!("{name} = {value}") || line == format!("{name} = \"{value}\"");
                assert!(shown.lines().any(shows), "{how} {name} = {value}: {shown}");
            }
        }
        for (settings, says) in refused {
            let (code, said) = given(how, settings);
            assert_eq!(code, Some(2), "{how} {settings:?}: {said}");
            assert!(said.contains(says), "{how} {settings:?}: {said}");
        }
    }
}
