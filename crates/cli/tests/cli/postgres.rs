//! `serve --journal postgres://…`: the whole bus on a database that is killed and servers that are killed, fenced and stopped.

use std::cell::RefCell;
use std::time::Duration;

use arioso_journal::postgres::cluster::{Cluster, programs};
use arioso_journal::postgres::proxy::{Faults, Proxy};

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
    let messages = storm(4, &start, &mut |time, server, start| match time % 3 {
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

/// Waits until the server's log tells of it.
fn told(server: &Server, what: &str) {
    let began = std::time::Instant::now();
    while !server.log().contains(what) {
        assert!(began.elapsed() < Duration::from_secs(30), "{what:?} is not in: {}", server.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Lets the database refuse every batch as a full disk does.
fn fill(cluster: &Cluster) {
    let refuse = "create function arioso.full() returns trigger language plpgsql as $$ begin \
                  raise exception 'no space left' using errcode = '53100'; end $$; \
                  create trigger full_disk before insert on arioso.batch for each row execute function arioso.full()";
    cluster.sql(refuse).unwrap();
}

#[test]
fn a_server_outlives_what_database_and_network_do_and_loses_nothing_and_stores_nothing_twice() {
    let Some(cluster) = database() else { return };
    // Limits of connections hold for ordinary users only.
    cluster.sql("create role bus login; grant create on database postgres to bus").unwrap();
    let proxy = Proxy::start(cluster.port(), 1, Faults::none()).unwrap();
    let as_bus = |url: String| url.replace("arioso@", "bus@");
    let (through, direct) = (as_bus(cluster.url_at(proxy.port())), as_bus(cluster.url()));
    let (cluster, dir) = (RefCell::new(cluster), tempfile::tempdir().unwrap());
    let count = RefCell::new(0);
    let serve = |url: &str| {
        *count.borrow_mut() += 1;
        let data = dir.path().join(count.borrow().to_string());
        let more = ["--journal", url, "--tip-bytes", "8MiB", "--write-reply-ordering-groups", "4"];
        Server::start_with(&data, &[&more[..], &["--write-timeout", "1s"]].concat())
    };
    let url = RefCell::new(through);
    let messages = storm(6, &|| serve(&url.borrow()), &mut |time, server, start| {
        match time % 6 {
            1 => {
                // Killed and started again under load.
                cluster.borrow_mut().kill().unwrap();
                told(&server, "writes are tried again");
                cluster.borrow_mut().run().unwrap();
            }
            2 => {
                // The network cuts, and takes no calls for a while.
                proxy.refuse(true);
                proxy.cut();
                std::thread::sleep(Duration::from_millis(300));
                proxy.refuse(false);
                proxy.set(Faults { cut_percent: 2.0, delay_percent: 5.0, delay_ms: 1..=30, ..Faults::none() });
                std::thread::sleep(Duration::from_secs(2));
                proxy.set(Faults::none());
            }
            3 => {
                // The answer to a commit is lost, again and again.
                for _ in 0..5 {
                    proxy.set(Faults { cut_answer: Some(b"INSERT 0 1".to_vec()), ..Faults::none() });
                    while proxy.waits_to_cut() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
            4 => {
                // One connection is all there is to have.
                let cluster = cluster.borrow();
                cluster.sql("alter role bus connection limit 1").unwrap();
                proxy.cut();
                std::thread::sleep(Duration::from_secs(1));
                cluster.sql("alter role bus connection limit -1").unwrap();
            }
            5 => {
                let cluster = cluster.borrow();
                fill(&cluster);
                told(&server, "53100");
                std::thread::sleep(Duration::from_millis(500));
                cluster.sql("drop trigger full_disk on arioso.batch").unwrap();
            }
            _ => {
                // Its writes hang in the network while another server takes the stream over, and come through behind it.
                proxy.stall(true);
                std::thread::sleep(Duration::from_millis(200));
                url.borrow_mut().clone_from(&direct);
                let next = start();
                proxy.stall(false);
                let log = server.log();
                assert_eq!(server.wait().code(), Some(1), "{log}");
                return next;
            }
        }
        server
    });
    let read = serve(&direct).run(&["sub", "**", "--from", "start", "--until-end", "--format", "json"]).ok();
    assert_eq!(read.lines().count() as u64, messages);
}
