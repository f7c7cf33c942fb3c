//! What a database and a network do to the backend `postgres`: each fault, and what must hold in spite of it.

use std::sync::Arc;
use std::time::Duration;

use arioso_journal::backend::From;
use arioso_journal::postgres::cluster::Cluster;
use arioso_journal::postgres::proxy::{Faults, Proxy};
use arioso_journal::postgres::{Postgres, PostgresOptions, Scan};
use arioso_journal::{Backend, Completion, Error, Outcome, Room, Stored, Write};
use arioso_stream::Sequence;

use crate::database::{Database, end_of, installed, known, news, options, shared, submit, until};
use crate::stream::{Seen, Stream};
use crate::suite::{Kind, assert_durable, take_over, write};

/// A journal that is in charge, its first batch written.
fn in_charge(kind: &mut Database) -> (Postgres, Stream) {
    let mut journal = kind.open();
    let (_, _, mut stream) = take_over(&mut journal, 0);
    let first = vec![stream.empty()];
    write(kind, &mut journal, first);
    (journal, stream)
}

fn batches(stream: &mut Stream, count: u8) -> Vec<Write> {
    (0..count).map(|n| stream.batch(&[n; 200])).collect()
}

fn numbers(writes: &[Write]) -> Vec<u64> {
    writes.iter().map(|write| write.number.0).collect()
}

/// The numbers of the batches in the table, and whether each is a batch.
fn rows(kind: &Database) -> String {
    let schema = &kind.options.schema;
    kind.cluster
        .sql(&format!(
            "select number || case when header = '' then 'x' else '' end from {schema}.batch order by number"
        ))
        .unwrap()
}

/// A trigger that refuses batches, with an error of this class.
fn refuse(kind: &Database, when: &str, state: &str) {
    let schema = &kind.options.schema;
    kind.cluster
        .sql(&format!(
            "create or replace function {schema}.refuse() returns trigger language plpgsql as $$ begin \
             if {when} then raise exception 'refused by a test' using errcode = '{state}'; end if; return new; end $$; \
             create trigger refuse before insert on {schema}.batch for each row execute function {schema}.refuse()"
        ))
        .unwrap();
}

fn through_proxy(faults: Faults) -> Option<(Database, Proxy)> {
    if !installed() {
        return None;
    }
    let cluster = shared();
    let proxy = Proxy::start(cluster.port(), 1, faults).unwrap();
    let options = PostgresOptions { write_timeout: Duration::from_secs(1), ..options(cluster.url_at(proxy.port())) };
    Some((Database::on(cluster, options), proxy))
}

#[test]
fn a_connection_lost_inside_the_commit_stores_the_batch_once() {
    let Some((mut kind, proxy)) = through_proxy(Faults::none()) else { return };
    let (mut journal, mut stream) = in_charge(&mut kind);
    proxy.set(Faults { cut_answer: Some(b"INSERT 0 1".to_vec()), ..Faults::none() });
    let writes = batches(&mut stream, 1);
    let want = numbers(&writes);
    submit(&mut journal, writes);
    let told = until(&mut journal, |told| known(told) == 1);
    assert!(!proxy.waits_to_cut());
    assert_eq!(told[0].outcome, Outcome::Unknown);
    assert_durable(&told, want);
    assert_eq!(rows(&kind), "1\n2");
}

#[test]
fn a_takeover_whose_commit_is_cut_knows_afterwards_that_it_is_in_charge() {
    let Some((mut kind, proxy)) = through_proxy(Faults::none()) else { return };
    let mut journal = kind.open();
    let (_, _, mut stream) = take_over(&mut journal, 0);
    proxy.set(Faults { cut_answer: Some(b"COMMIT".to_vec()), ..Faults::none() });
    submit(&mut journal, vec![stream.empty()]);
    let told = until(&mut journal, |told| known(told) == 1);
    assert!(!proxy.waits_to_cut());
    assert_durable(&told, [1]);
    journal.confirm().unwrap();
}

#[test]
fn a_server_killed_and_started_again_under_load_loses_and_doubles_nothing() {
    if !installed() {
        return;
    }
    let mut cluster = Cluster::start(&std::env::temp_dir(), &[]).unwrap();
    let options = options(cluster.url());
    let mut journal = Postgres::open(&options).unwrap();
    let (_, _, mut stream) = take_over(&mut journal, 0);
    submit(&mut journal, vec![stream.empty()]);
    until(&mut journal, |told| known(told) == 1);
    let news = news(&mut journal);
    let (mut told, mut sent, mut killed) = (Vec::new(), Vec::new(), 0);
    // Killed twice, and until one of them met a write on its way.
    let enough = |told: &[Completion], killed| {
        killed >= 2 && told.iter().any(|done| done.outcome == Outcome::Unknown) || killed == 10
    };
    while !enough(&told, killed) || known(&told) < sent.len() {
        while !enough(&told, killed) && journal.slots() > 0 {
            let write = stream.batch(&[1; 500]);
            sent.push(write.number.0);
            journal.submit(write);
        }
        if known(&told) > 100 * (killed + 1) && !enough(&told, killed) {
            cluster.kill().unwrap();
            cluster.run().unwrap();
            killed += 1;
        }
        journal.advance(&mut told).unwrap();
        if known(&told) < sent.len() {
            news.recv_timeout(Duration::from_secs(30)).unwrap();
        }
    }
    assert!(told.iter().any(|done| done.outcome == Outcome::Unknown), "nothing was on its way in 10 kills");
    assert_durable(&told, sent.clone());
    drop(journal);
    let mut again = Postgres::open(&options).unwrap();
    let (found, _, _) = take_over(&mut again, 0);
    assert_eq!(found.numbers(), sent);
}

#[test]
fn a_write_stalled_across_a_takeover_never_lands_and_its_server_is_fenced() {
    let Some((mut kind, proxy)) = through_proxy(Faults::none()) else { return };
    let (mut old, mut stream) = in_charge(&mut kind);
    // More than the newcomer will write: no number of its own is in the way of the last ones.
    let stalled = batches(&mut stream, 6);
    proxy.stall(true);
    submit(&mut old, stalled);
    let direct = PostgresOptions { url: kind.cluster.url(), ..kind.options.clone() };
    let mut other = Database::on(Arc::clone(&kind.cluster), direct);
    let (mut newcomer, mut theirs) = in_charge(&mut other);
    let writes = batches(&mut theirs, 2);
    let want = numbers(&writes);
    let told = write(&mut other, &mut newcomer, writes);
    assert_durable(&told, want);
    // The announcement has passed long ago: the epoch alone keeps the old one out.
    kind.cluster
        .sql(&format!("update {}.announced set until = clock_timestamp() - interval '1 s'", kind.options.schema))
        .unwrap();
    proxy.stall(false);
    let ended = end_of(&mut old);
    assert!(matches!(ended, Error::Fenced { ours: 1, theirs: 2 }), "{ended}");
    assert!(old.confirm().is_err() && old.stop(Sequence(9), 1).is_err());
    newcomer.confirm().unwrap();
    assert_eq!(rows(&kind), "1\n2\n3\n4");
}

#[test]
fn numbers_missing_above_what_is_settled_are_taken_and_below_it_they_are_damage() {
    let Some(mut kind) = Database::new() else { return };
    let (mut journal, mut stream) = in_charge(&mut kind);
    stream.settled_to = stream.next_sequence().0 + 2;
    let writes = batches(&mut stream, 9);
    write(&mut kind, &mut journal, writes);
    drop(journal);
    // Batches 2 to 10; what batch 4 holds is settled, what 5 holds and all behind is not.
    kind.cluster.sql(&format!("delete from {}.batch where number in (3, 7, 8)", kind.options.schema)).unwrap();
    let mut journal = kind.open();
    let (found, _, mut stream) = take_over(&mut journal, 0);
    let damaged: Vec<_> = found.damage.iter().map(|damage| damage.batches.clone().unwrap()).collect();
    assert_eq!(damaged, [3..=3]);
    let first = vec![stream.empty()];
    write(&mut kind, &mut journal, first);
    assert_eq!(rows(&kind).replace('\n', " "), "1 2 4 5 6 7x 8x 9 10 11");
}

#[test]
fn a_write_refused_for_good_fails_alone_and_can_never_land() {
    let Some(mut kind) = Database::new() else { return };
    let (mut journal, mut stream) = in_charge(&mut kind);
    refuse(&kind, "new.number = 3 and new.header <> ''", "23514");
    let writes = batches(&mut stream, 4);
    let told = write(&mut kind, &mut journal, writes);
    let outcome = |number| told.iter().find(|done| done.number.0 == number).map(|done| done.outcome);
    assert_eq!((outcome(2), outcome(3)), (Some(Outcome::Durable), Some(Outcome::Failed)));
    assert_eq!(rows(&kind).replace('\n', " "), "1 2 3x 4 5");
}

#[test]
fn a_database_that_refuses_everything_for_good_is_the_end() {
    let Some(mut kind) = Database::new() else { return };
    let (mut journal, mut stream) = in_charge(&mut kind);
    refuse(&kind, "new.header <> ''", "23514");
    let mut told = Vec::new();
    let error = loop {
        if journal.slots() > 0 {
            journal.submit(stream.batch(b"x"));
        }
        if let Err(error) = journal.advance(&mut told) {
            break error;
        }
        assert!(known(&told) < 60);
    };
    assert!(error.to_string().contains("refused by a test (23514)"), "{error}");
}

#[test]
fn a_full_disk_is_told_and_what_waited_is_written_when_there_is_room() {
    let Some(mut kind) = Database::new() else { return };
    let (mut journal, mut stream) = in_charge(&mut kind);
    refuse(&kind, "true", "53100");
    let writes = batches(&mut stream, 3);
    let want = numbers(&writes);
    submit(&mut journal, writes);
    let mut told = until(&mut journal, |told| told.len() >= 3);
    assert!(matches!(journal.room(), Room::DiskFull { .. }), "{:?}", journal.room());
    assert!(journal.trouble().unwrap().contains("53100"));
    kind.cluster.sql(&format!("drop trigger refuse on {}.batch", kind.options.schema)).unwrap();
    told.extend(until(&mut journal, |told| known(told) == 3));
    assert_durable(&told, want);
    assert!(matches!(journal.room(), Room::Bytes(_)));
}

/// A small disk in memory, if this process may mount one; gone when dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(folder: &std::path::Path) -> Option<SmallDisk> {
        use std::os::unix::fs::{MetadataExt, chown};
        let disk = folder.join("small");
        std::fs::create_dir(&disk).unwrap();
        let mounted =
            std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "none"]).arg(&disk).output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            eprintln!("omitted: this process may not mount a small disk");
            return None;
        }
        let owner = std::fs::metadata(folder).unwrap();
        chown(&disk, Some(owner.uid()), Some(owner.gid())).unwrap();
        Some(SmallDisk(disk))
    }

    fn grow(&self) {
        let grown = std::process::Command::new("mount").args(["-o", "remount,size=64m"]).arg(&self.0).status();
        assert!(grown.unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the server may still have files on it open.
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_disk_of_the_database_that_is_really_full_loses_nothing_and_is_written_on_when_it_grows() {
    if !installed() {
        return;
    }
    let cluster = Arc::new(Cluster::start(&std::env::temp_dir(), &[]).unwrap());
    let Some(disk) = SmallDisk::mount(cluster.folder()) else { return };
    let mut kind = Database::on(Arc::clone(&cluster), options(cluster.url()));
    let (mut journal, mut stream) = in_charge(&mut kind);
    cluster.sql(&format!("create tablespace small location '{}'", disk.0.display())).unwrap();
    cluster.sql(&format!("alter table {}.batch set tablespace small", kind.options.schema)).unwrap();
    let news = news(&mut journal);
    let (mut told, mut sent) = (Vec::new(), Vec::new());
    while !matches!(journal.room(), Room::DiskFull { .. }) {
        if journal.slots() > 0 {
            let write = stream.batch(&[7; 100_000]);
            sent.push(write.number.0);
            journal.submit(write);
        } else {
            news.recv_timeout(Duration::from_secs(30)).unwrap();
        }
        journal.advance(&mut told).unwrap();
        assert!(sent.len() < 100, "the disk is not full");
    }
    assert!(journal.trouble().unwrap().contains("53100"), "{:?}", journal.trouble());
    disk.grow();
    let open = sent.len() - known(&told);
    told.extend(until(&mut journal, |more| known(more) == open));
    assert_durable(&told, sent.clone());
    drop(journal);
    assert_eq!(take_over(&mut kind.open(), 0).0.numbers(), sent);
}

#[test]
fn a_network_that_falls_silent_is_given_up_and_tried_again() {
    let Some((mut kind, proxy)) = through_proxy(Faults::none()) else { return };
    let (mut journal, mut stream) = in_charge(&mut kind);
    proxy.stall(true);
    let writes = batches(&mut stream, 4);
    let want = numbers(&writes);
    submit(&mut journal, writes);
    let mut told = until(&mut journal, |told| told.iter().any(|done| done.outcome == Outcome::Unknown));
    proxy.stall(false);
    told.extend(until(&mut journal, |more| known(more) == 4));
    assert_durable(&told, want);
}

#[test]
fn delays_and_cuts_at_random_keep_every_batch_once() {
    let faults =
        Faults { delay_percent: 5.0, delay_ms: 5..=50, jitter_us: 0..=300, cut_percent: 1.0, cut_answer: None };
    let Some((mut kind, proxy)) = through_proxy(Faults::none()) else { return };
    let (mut journal, mut stream) = in_charge(&mut kind);
    proxy.set(faults);
    let writes = batches(&mut stream, 200);
    let want = numbers(&writes);
    let told = write(&mut kind, &mut journal, writes);
    assert_durable(&told, want.clone());
    proxy.set(Faults::none());
    let mut again = kind.again(journal);
    assert_eq!(take_over(&mut again, 0).0.numbers(), want);
}

#[test]
fn writes_go_on_over_the_connections_there_are_when_the_database_has_no_more() {
    if !installed() {
        return;
    }
    let few = ["max_connections=7", "superuser_reserved_connections=3", "max_wal_senders=0"];
    let cluster = Arc::new(Cluster::start(&std::env::temp_dir(), &few).unwrap());
    cluster.sql("create role plain login; grant create on database postgres to plain").unwrap();
    let url = cluster.url().replace("arioso@", "plain@");
    let mut kind = Database::on(Arc::clone(&cluster), options(url));
    let (mut journal, mut stream) = in_charge(&mut kind);
    let writes = batches(&mut stream, 250);
    let want = numbers(&writes);
    let told = write(&mut kind, &mut journal, writes);
    assert_durable(&told, want);
    assert!((1..=4).contains(&journal.connections()), "{}", journal.connections());
}

#[test]
fn a_server_yields_to_a_newcomer_that_is_announced_and_goes_on_if_it_stays_away() {
    let Some(mut kind) = Database::new() else { return };
    let (mut journal, mut stream) = in_charge(&mut kind);
    let announced = |until: &str| {
        let schema = &kind.options.schema;
        kind.cluster
            .sql(&format!("update {schema}.announced set epoch = 2, until = clock_timestamp() + interval '{until}'"))
            .unwrap()
    };
    announced("1 hour");
    let writes = batches(&mut stream, 1);
    submit(&mut journal, writes);
    let mut told = until(&mut journal, |told| told.len() >= 2);
    assert_eq!(known(&told), 0);
    announced("-1 s");
    told.extend(until(&mut journal, |told| known(told) == 1));
    assert_durable(&told, [2]);
}

#[test]
fn history_is_read_in_pieces_by_sequence_and_by_number_and_tells_what_is_lost() {
    let Some(mut kind) = Database::new() else { return };
    let (mut journal, mut stream) = in_charge(&mut kind);
    let first = stream.next_sequence().0;
    let mut writes = batches(&mut stream, 20);
    writes.push(stream.void(first + 19, first + 19));
    write(&mut kind, &mut journal, writes);
    let reader = journal.reader();
    let read = |from, bytes| {
        let found = reader.read(from, bytes).unwrap();
        found.iter().map(|batch| (batch.number, batch.damage_before.is_some())).collect::<Vec<_>>()
    };
    assert_eq!(read(From::Sequence(Sequence(first + 3)), 800), [(5, false), (6, false)]);
    assert_eq!(read(From::Number(20), 1 << 20), [(20, false), (21, false), (22, false)]);
    assert_eq!(read(From::Number(23), 1 << 20), []);
    kind.cluster.sql(&format!("delete from {}.batch where number = 6", kind.options.schema)).unwrap();
    assert_eq!(read(From::Number(5), 1 << 10)[..2], [(5, false), (7, true)]);
    drop(journal);
    assert!(reader.read(From::Number(5), 1).unwrap_err().to_string().contains("the journal is closed"));
    let mut journal = kind.open();
    journal.take_over().unwrap();
    let mut voids = Seen::default();
    journal.scan(Scan::Voids, &mut voids).unwrap();
    assert_eq!(voids.numbers(), [22]);
}

#[test]
fn a_batch_larger_than_what_may_be_in_flight_goes_alone() {
    let Some(mut kind) = Database::new() else { return };
    kind.options.in_flight_bytes_max = 10_000;
    let (mut journal, mut stream) = in_charge(&mut kind);
    let writes = vec![stream.batch(&[1; 100]), stream.batch(&[2; 100_000]), stream.batch(&[3; 100])];
    let told = write(&mut kind, &mut journal, writes);
    assert_durable(&told, 2..=4);
    journal.submit(stream.batch(&[4; 9_000]));
    assert!(matches!(journal.room(), Room::Bytes(bytes) if bytes < 1_000), "{:?}", journal.room());
    until(&mut journal, |told| known(told) == 1);
}

#[test]
fn what_can_not_be_used_is_refused_with_its_reason() {
    let Some(kind) = Database::new() else { return };
    let refused = |options: PostgresOptions| Postgres::open(&options).err().unwrap().to_string();
    let given = |url: &str| PostgresOptions { url: url.into(), ..kind.options.clone() };
    assert!(refused(given("postgres://[")).contains("postgres://user:password@host:port/database is wanted"));
    let away = refused(given("postgres://u:secret@127.0.0.1:1/d"));
    assert!(away.contains("127.0.0.1:1/d") && away.contains("refused") && !away.contains("secret"), "{away}");
    assert!(refused(given(&format!("{}?sslmode=require", kind.cluster.url()))).contains("postgres-ca"));
    assert!(refused(PostgresOptions { schema: "A-b".into(), ..kind.options.clone() }).contains("a-z, 0-9 and _"));
    let none = PostgresOptions { new_stream: None, ..kind.options.clone() };
    assert!(refused(none).contains("there is no stream in this schema"));
    drop(Postgres::open(&kind.options).unwrap());
    kind.cluster.sql(&format!("update {}.stream set version = 2", kind.options.schema)).unwrap();
    assert!(refused(kind.options.clone()).contains("the tables have version 2, this program knows 1"));
}

/// A certificate for 127.0.0.1 and its key, in the directory of a server that may read them.
fn certificate(cluster: &Cluster, name: &str) -> Option<(std::path::PathBuf, std::path::PathBuf)> {
    let (cert, key) = (cluster.folder().join(format!("{name}.crt")), cluster.folder().join(format!("{name}.key")));
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=arioso", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-out"])
        .arg(&cert)
        .arg("-keyout")
        .arg(&key)
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        eprintln!("omitted: there is no openssl to make certificates with");
        return None;
    }
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let owner = std::fs::metadata(cluster.folder()).unwrap();
    for file in [&cert, &key] {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
        chown(file, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    Some((cert, key))
}

#[test]
fn with_authorities_connections_are_encrypted_and_a_server_they_do_not_vouch_for_is_refused() {
    if !installed() {
        return;
    }
    let mut cluster = Cluster::start(&std::env::temp_dir(), &[]).unwrap();
    let Some((cert, key)) = certificate(&cluster, "server") else { return };
    let Some((other, _)) = certificate(&cluster, "other") else { return };
    for (name, file) in [("ssl_cert_file", &cert), ("ssl_key_file", &key)] {
        cluster.sql(&format!("alter system set {name} = '{}'", file.display())).unwrap();
    }
    cluster.sql("alter system set ssl = on").unwrap();
    cluster.kill().unwrap();
    cluster.run().unwrap();
    let given = |authorities: &std::path::Path, url: String| PostgresOptions {
        authorities: Some(authorities.to_path_buf()),
        ..options(url)
    };
    let url = cluster.url();
    let mut kind = Database::on(Arc::new(cluster), given(&cert, url.clone()));
    let (_journal, _) = in_charge(&mut kind);
    let encrypted = "select count(*) from pg_stat_ssl s join pg_stat_activity a using (pid) \
                     where a.application_name = 'arioso' and not s.ssl";
    assert_eq!(kind.cluster.sql(encrypted).unwrap(), "0");
    let refused = |options: PostgresOptions| Postgres::open(&options).err().unwrap().to_string();
    let unknown = refused(given(&other, url.clone()));
    assert!(unknown.contains("certificate"), "{unknown}");
    let renamed = refused(given(&cert, url.replace("127.0.0.1", "localhost")));
    assert!(renamed.contains("certificate"), "{renamed}");
    let nothing = refused(given(&key, url));
    assert!(nothing.contains("there is no certificate in it"), "{nothing}");
}
