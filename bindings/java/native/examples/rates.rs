//! What the Rust client does on a bus, for comparing with what a JVM does on the same: `cargo xtask java-bench` runs both.
//!
//! ```text
//! rates fill    WHERE MESSAGES PAYLOAD        publishes so many messages of so many bytes on 1,000 topics
//! rates replay  WHERE ROUNDS                  reads everything, round by round, and prints the rate of each
//! rates publish WHERE MESSAGES PAYLOAD BLOCK  publishes in blocks of so many; 1 waits for each answer
//! ```
//!
//! WHERE is a directory, which is opened, or `host:port`, which is connected to.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use arioso::{AckLevel, Begin, Bus, Message, Publisher};

/// Blocks that wait for their answers.
const BLOCKS_IN_FLIGHT: usize = 16;
/// Topics are short, two levels, so that a message costs what its header and payload cost.
const TOPICS: usize = 1_000;

type Done<T> = Result<T, Box<dyn Error>>;

fn open(place: &str) -> Done<Bus> {
    let is_address = !Path::new(place).exists() && place.contains(':');
    Ok(if is_address { Bus::connect(place)? } else { Bus::open(place)? })
}

fn publish(publisher: &Publisher, messages: usize, payload: &[u8], block: usize) -> Done<()> {
    let topics: Vec<_> = (0..TOPICS).map(|n| publisher.topic(&format!("rates/{n}"))).collect::<arioso::Result<_>>()?;
    let mut records = publisher.block(AckLevel::Durable);
    let mut open = std::collections::VecDeque::new();
    for n in 0..messages {
        while !records.push(topics[n % TOPICS], &Message::new(payload))? {
            open.push_back(publisher.send_many(&mut records)?);
        }
        if records.messages() as usize == block || n + 1 == messages {
            open.push_back(publisher.send_many(&mut records)?);
        }
        while open.len() >= if block == 1 { 1 } else { BLOCKS_IN_FLIGHT } {
            open.pop_front().map(|receipt| receipt.wait()).transpose()?;
        }
    }
    publisher.flush();
    Ok(())
}

fn fill(place: &str, messages: usize, bytes: usize, block: usize) -> Done<()> {
    let bus = open(place)?;
    let publisher = bus.publisher(None)?;
    let start = Instant::now();
    publish(&publisher, messages, &vec![b'x'; bytes], block)?;
    let s = start.elapsed().as_secs_f64();
    println!("rust publish: {messages} messages of {bytes} B in blocks of {block}: {:.0}/s", messages as f64 / s);
    publisher.close()?;
    Ok(bus.close()?)
}

fn replay(place: &str, rounds: usize) -> Done<()> {
    let bus = open(place)?;
    for touch in [false, true] {
        for round in 0..rounds {
            let start = Instant::now();
            let mut subscription = bus.subscribe(["rates/**"], Begin::Start, true)?;
            let (mut count, mut batches, mut digest) = (0, 0, 0u64);
            while let Some(batch) = subscription.next_batch()? {
                count += batch.len();
                batches += 1;
                if touch {
                    for message in batch.messages() {
                        let message = message?;
                        digest = digest.wrapping_mul(31).wrapping_add(message.sequence().0);
                        digest = digest.wrapping_add(message.payload().len() as u64);
                    }
                }
            }
            let s = start.elapsed().as_secs_f64();
            let how = if touch { "each message seen" } else { "batches taken" };
            let rate = count as f64 / s;
            println!(
                "rust replay, {how}, round {round}: {count} messages in {batches} batches, {rate:.0}/s, digest {digest}"
            );
        }
    }
    Ok(bus.close()?)
}

fn main() -> Done<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["fill", place, messages, payload] => fill(place, messages.parse()?, payload.parse()?, 1_000),
        ["publish", place, messages, payload, block] => {
            fill(place, messages.parse()?, payload.parse()?, block.parse()?)
        }
        ["replay", place, rounds] => replay(place, rounds.parse()?),
        _ => {
            Err("usage: rates fill WHERE MESSAGES PAYLOAD | replay WHERE ROUNDS | publish WHERE MESSAGES PAYLOAD BLOCK"
                .into())
        }
    }
}
