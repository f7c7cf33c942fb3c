//! docs/operating.md lists every setting and every metric; `UPDATE_EXPECT=1` writes the lists anew.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::path::{Path, PathBuf};

use arioso_server::http::GAUGES;
use arioso_server::metrics::COUNTERS;
use arioso_server::settings::{SETTINGS, Settings};

fn check(mark: &str, table: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let begin = text.find(&format!("<!-- {mark}:")).expect("the manual has the place");
    let begin = begin + text[begin..].find("-->\n").unwrap() + 4;
    let end = begin + text[begin..].find("<!-- end -->").expect("the place ends");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, format!("{}{table}{}", &text[..begin], &text[end..])).unwrap();
        return;
    }
    assert_eq!(&text[begin..end], table, "run with UPDATE_EXPECT=1 and read the diff");
}

fn settings() {
    let defaults = Settings::default();
    let mut table = String::from("\n| setting | variable | default | |\n|---|---|---|---|\n");
    for setting in SETTINGS {
        let value = if setting.value.is_empty() { String::new() } else { format!(" {}", setting.value) };
        let (name, variable, default) = (setting.name, setting.variable(), setting.get(&defaults));
        table += &format!("| `{name}`{} | `{variable}` | {default} | {} |\n", value.replace('|', "\\|"), setting.help);
    }
    check("settings", &(table + "\n"));
}

fn metrics() {
    let mut table = String::from("\n| metric | kind | |\n|---|---|---|\n");
    for (name, kind, help) in COUNTERS {
        table += &format!("| `{name}` | {kind} | {help} |\n");
    }
    for (name, help) in GAUGES {
        table += &format!("| `{name}` | gauge | {help} |\n");
    }
    check("metrics", &(table + "\n"));
}

#[test]
fn the_manual_lists_every_setting_and_every_metric() {
    settings();
    metrics();
}
