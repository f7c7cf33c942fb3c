//! A real server, killed under load again and again: nothing acknowledged is lost, nothing is stored twice, every publisher's
//! order is kept, no number is used twice, and the directory is sound afterwards.
//!
//! ```text
//! 4 named, 4 anonymous publishers ─┐
//! 1 subscription, from the start  ─┴─▶ relay (an address that stays) ──▶ server ◀── SIGKILL, started again
//! ```
//!
//! Four kills with the tests; `cargo xtask crash --kills 20` for more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use arioso::{Begin, Bus, Message, Options, Receipt};

use crate::support::*;

const NAMED: usize = 4;
const ANONYMOUS: usize = 4;
/// Messages of a publisher that wait for their answers.
const UNANSWERED: usize = 64;
const LAST_TOPIC: &str = "last";

/// What a publisher sent and what became of it, by its own count.
#[derive(Debug, Default)]
struct Told {
    sent: u64,
    acknowledged: BTreeMap<u64, u64>,
    unknown: BTreeSet<u64>,
}

/// Counts acknowledgements; whoever kills waits for some.
#[derive(Debug, Default)]
struct Tally {
    count: Mutex<u64>,
    more: Condvar,
    stop: AtomicBool,
}

impl Tally {
    fn add(&self) {
        *self.count.lock().unwrap() += 1;
        self.more.notify_all();
    }

    fn wait_for_more(&self, more: u64) {
        let count = self.count.lock().unwrap();
        let wanted = *count + more;
        drop(self.more.wait_while(count, |count| *count < wanted).unwrap());
    }
}

/// Forwards connections to wherever the server listens now.
struct Relay {
    address: String,
    target: Arc<Mutex<String>>,
}

impl Relay {
    fn start() -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let target = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&target);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                // While the server is gone, a connection is closed at once: the client dials again.
                let Ok(server) = TcpStream::connect(&*shared.lock().unwrap()) else { continue };
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                forward(client.try_clone().unwrap(), server.try_clone().unwrap());
                forward(server, client);
            }
        });
        Relay { address, target }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        // Cut by a kill, or at its end: either way both sides are over.
        let _ = std::io::copy(&mut from, &mut to);
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    });
}

fn connect(address: &str) -> Bus {
    let options = Options {
        unreachable_after: None,
        connect_timeout: Duration::from_secs(60),
        backoff_min: Duration::from_millis(5),
        backoff_max: Duration::from_millis(50),
        ..Options::default()
    };
    Bus::connect_with(address, options).unwrap()
}

fn payload(name: &str, k: u64) -> Vec<u8> {
    let mut payload = format!("{name} {k} ").into_bytes();
    payload.resize(payload.len() + (k * 37 % 700) as usize, b'.');
    payload
}

/// Publishes until it is told to stop, and gives what it was told.
fn publisher(address: String, name: String, is_named: bool, tally: Arc<Tally>) -> JoinHandle<Told> {
    std::thread::spawn(move || {
        let bus = connect(&address);
        let publisher = bus.publisher(is_named.then_some(&*name)).unwrap();
        let mut told = Told::default();
        let mut waiting: VecDeque<(u64, Receipt)> = VecDeque::new();
        let answer = |told: &mut Told, (k, receipt): (u64, Receipt)| match receipt.wait() {
            Ok(ack) => {
                told.acknowledged.insert(k, ack.sequence.0);
                tally.add();
            }
            Err(error) => {
                assert!(!is_named, "{name}: message {k}: {error}");
                told.unknown.insert(k);
            }
        };
        while !tally.stop.load(Ordering::Relaxed) {
            told.sent += 1;
            let k = told.sent;
            let topic = format!("load/{name}/{}", k % 5);
            let receipt = publisher.send(&topic, Message::new(&payload(&name, k))).unwrap();
            waiting.push_back((k, receipt));
            if waiting.len() >= UNANSWERED {
                answer(&mut told, waiting.pop_front().unwrap());
            }
        }
        waiting.into_iter().for_each(|one| answer(&mut told, one));
        publisher.close().unwrap();
        bus.close().unwrap();
        told
    })
}

/// Sequence, publisher, the publisher's count.
type Row = (u64, String, u64);

/// Reads until the end, or until the message that ends the load.
fn read(bus: &Bus, until_end: bool) -> Vec<Row> {
    let mut subscription = bus.subscribe(["load/**", LAST_TOPIC], Begin::Start, until_end).unwrap();
    let mut rows = Vec::new();
    while let Some(batch) = subscription.next_batch().unwrap() {
        for message in batch.messages().map(Result::unwrap) {
            if message.topic() == LAST_TOPIC {
                return rows;
            }
            let text = std::str::from_utf8(message.payload()).unwrap();
            let mut words = text.split(' ');
            let (name, k) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
            assert_eq!(message.payload(), payload(name, k), "other bytes");
            assert_eq!(message.topic(), format!("load/{name}/{}", k % 5));
            rows.push((message.sequence().0, name.to_owned(), k));
        }
    }
    rows
}

fn check(rows: &[Row], name: &str, is_named: bool, told: &Told) {
    let mine: Vec<(u64, u64)> = rows.iter().filter(|row| row.1 == name).map(|row| (row.2, row.0)).collect();
    assert!(mine.is_sorted_by(|a, b| a.0 < b.0), "{name}: out of order or twice");
    let kept: BTreeMap<u64, u64> = mine.into_iter().collect();
    for (k, sequence) in &told.acknowledged {
        assert_eq!(kept.get(k), Some(sequence), "{name}: message {k} was acknowledged as {sequence}");
    }
    for k in kept.keys().filter(|k| !told.acknowledged.contains_key(k)) {
        assert!(told.unknown.contains(k), "{name}: message {k} was refused and is kept");
    }
    assert_eq!(told.acknowledged.len() + told.unknown.len(), told.sent as usize, "{name}: an answer each");
    if is_named {
        assert_eq!(told.unknown.len(), 0);
        assert!(kept.keys().copied().eq(1..=told.sent), "{name}: all of them");
    }
}

fn number(variable: &str, usual: u64) -> u64 {
    let text = std::env::var(variable);
    text.map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}: a number is wanted")))
}

/// How a server gives way to the next, or what it outlives, by the number of the time.
pub type Replace<'a> = dyn FnMut(u64, Server, &dyn Fn() -> Server) -> Server + 'a;

/// Kills and starts again; gives the last server.
fn kill_and_start(
    start: &dyn Fn() -> Server,
    relay: &Relay,
    tally: &Tally,
    (kills, mut random): (u64, u64),
    replace: &mut Replace<'_>,
) -> Server {
    let start = || {
        let server = start();
        relay.target.lock().unwrap().clone_from(&server.address);
        server
    };
    let mut server = start();
    let mut next = server.ready["next_sequence"].as_u64().unwrap();
    for kill in 1..=kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let more = 200 + (random >> 33) % 1_500;
        tally.wait_for_more(more);
        let address = server.address.clone();
        server = replace(kill, server, &start);
        if server.address == address {
            println!("fault {kill} after {more} more acknowledgements; the server stays");
            continue;
        }
        assert_eq!(server.ready["clean"], false);
        let before = std::mem::replace(&mut next, server.ready["next_sequence"].as_u64().unwrap());
        assert!(next > before, "kill {kill}: numbers go on above {before}, not at {next}");
        println!("kill {kill} after {more} more acknowledgements; goes on at {next}");
    }
    tally.wait_for_more(500);
    server
}

/// Load on servers that are replaced; checks all that holds however they are, stops the last one cleanly, and gives how many
/// messages are kept. `usual`: times, unless the environment says otherwise.
pub fn storm(usual: u64, start: &dyn Fn() -> Server, replace: &mut Replace<'_>) -> u64 {
    let (kills, seed) = (number("ARIOSO_KILLS", usual), number("ARIOSO_SEED", 1));
    println!("ARIOSO_KILLS={kills} ARIOSO_SEED={seed}");
    let (relay, tally) = (Relay::start(), Arc::new(Tally::default()));
    let names: Vec<(String, bool)> = (0..NAMED + ANONYMOUS)
        .map(|n| if n < NAMED { (format!("named-{n}"), true) } else { (format!("anonymous-{n}"), false) })
        .collect();
    let begin = |(name, is_named): &(String, bool)| {
        publisher(relay.address.clone(), name.clone(), *is_named, Arc::clone(&tally))
    };
    let publishers: Vec<_> = names.iter().map(begin).collect();
    let address = relay.address.clone();
    let follower = std::thread::spawn(move || read(&connect(&address), false));
    let server = kill_and_start(start, &relay, &tally, (kills, seed), replace);
    tally.stop.store(true, Ordering::Relaxed);
    let told: Vec<Told> = publishers.into_iter().map(|thread| thread.join().unwrap()).collect();
    let bus = Bus::connect(&server.address).unwrap();
    bus.publish(LAST_TOPIC, b"").unwrap();

    let followed = follower.join().unwrap();
    assert!(followed.is_sorted_by(|a, b| a.0 < b.0), "one order");
    assert!(read(&bus, true) == followed, "who followed across the kills saw what is kept");
    for ((name, is_named), told) in names.iter().zip(&told) {
        check(&followed, name, *is_named, told);
    }
    let acknowledged: Vec<u64> = told.iter().flat_map(|told| told.acknowledged.values().copied()).collect();
    let distinct: BTreeSet<u64> = acknowledged.iter().copied().collect();
    assert_eq!(acknowledged.len(), distinct.len(), "no number was given twice");
    let unknown: usize = told.iter().map(|told| told.unknown.len()).sum();
    println!("{} messages kept, {} acknowledged, {unknown} unknown", followed.len(), acknowledged.len());
    for publisher in bus.publishers().unwrap() {
        let at = names.iter().position(|(name, _)| *name == publisher.name).unwrap();
        assert_eq!(publisher.last, told[at].sent, "{}", publisher.name);
    }
    bus.close().unwrap();

    assert_eq!(server.stop().code(), Some(0));
    followed.len() as u64 + 1
}

#[test]
fn kills_under_load_lose_nothing_acknowledged_and_store_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let messages = storm(4, &|| Server::start(&data), &mut |_, server, start| {
        server.kill();
        start()
    });
    let inspected = run(&["inspect", data.to_str().unwrap(), "--json"]);
    assert_eq!(inspected.json().last().unwrap()["messages"], messages, "{}", inspected.out);
    inspected.ok();
    assert_eq!(Server::start(&data).ready["clean"], true);
}
