//! `serve --journal postgres://…`: the whole bus on a database that is killed and servers that are killed, fenced and stopped.

use std::cell::RefCell;

use arioso_journal::postgres::cluster::{Cluster, programs};

use crate::crash::storm;
use crate::support::*;

/// A database, unless PostgreSQL is missing where it may be.
fn database() -> Option<Cluster> {
    if programs().is_none() {
        assert!(std::env::var_os("CI").is_none(), "PostgreSQL is not installed, and CI is set: it must be");
        eprintln!("omitted: PostgreSQL is not installed");
        return None;
    }
    Some(Cluster::start(&std::env::temp_dir(), &[]).unwrap())
}

#[test]
fn servers_killed_fenced_and_cut_off_from_their_database_lose_nothing_and_store_nothing_twice() {
    let Some(cluster) = database() else { return };
    let (cluster, dir) = (RefCell::new(cluster), tempfile::tempdir().unwrap());
    let (url, count) = (cluster.borrow().url(), RefCell::new(0));
    let start = || {
        *count.borrow_mut() += 1;
        // A data directory each, as on machines of their own. A small tip, so that readers are served from the database.
        let data = dir.path().join(count.borrow().to_string());
        let more =
            ["--journal", &url, "--tip-bytes", "8MiB", "--write-reply-ordering-groups", "4", "--write-timeout", "2s"];
        Server::start_with(&data, &more)
    };
    let messages = storm(&start, &mut |time, server, start| match time % 3 {
        1 => {
            server.kill();
            start()
        }
        2 => {
            // The other one runs on until it finds out.
            let next = start();
            let log = server.log();
            assert_eq!(server.wait().code(), Some(1), "{log}");
            next
        }
        _ => {
            cluster.borrow_mut().kill().unwrap();
            cluster.borrow_mut().run().unwrap();
            server.kill();
            start()
        }
    });
    let rows = cluster.borrow().sql("select sum(records) from arioso.batch").unwrap();
    // Control records are among them.
    assert!(rows.parse::<u64>().unwrap() >= messages, "{rows}");
    let again = start();
    assert_eq!(again.ready["clean"], true);
    let read = again.run(&["sub", "**", "--from", "start", "--until-end", "--format", "json"]).ok();
    assert_eq!(read.lines().count() as u64, messages);
}

#[test]
fn a_database_that_is_not_there_is_told_with_its_place_and_without_its_password() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--journal", "postgres://bus:secret@127.0.0.1:1/bus", "--postgres-connect-timeout", "1s"];
    let ran = serve(&dir.path().join("data"), &more).output().unwrap();
    let says = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{says}");
    assert!(says.contains("127.0.0.1:1/bus schema arioso") && !says.contains("secret"), "{says}");
}
