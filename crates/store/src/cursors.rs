//! The cursors part of a footer or a base: the bodies of control record 5, one a cursor (docs/format.md section 6.2).
//!
//! What a cursor is, the engine knows. Here a body is only told apart from the next one and merged by its id: of two
//! the later counts, and one with holder epoch 0 was dropped.

use std::collections::BTreeMap;

use bytes::BufMut;

use crate::head::{BadPart, Cut};
use crate::part;

const MAGIC: [u8; 4] = *b"ACUR";
const ALIGN: usize = 8;

/// Cursors by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursors(BTreeMap<u32, Vec<u8>>);

impl Cursors {
    /// Adds a body of control record 5 in place of an older one of the same cursor; false if it does not parse.
    pub fn add(&mut self, body: &[u8]) -> bool {
        match split_body(body) {
            Some((id, body, _)) => {
                self.0.insert(id, body.to_vec());
                true
            }
            None => false,
        }
    }

    /// Adds all of a later part.
    pub fn extend(&mut self, later: &Cursors) {
        self.0.extend(later.0.iter().map(|(id, body)| (*id, body.clone())));
    }

    /// Forgets those that were dropped: for a base, where nothing older lies beneath.
    pub fn forget_dropped(&mut self) {
        self.0.retain(|_, body| holder_epoch(body) != 0);
    }

    /// The bodies, by id.
    pub fn bodies(&self) -> impl Iterator<Item = &[u8]> {
        self.0.values().map(Vec::as_slice)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As a part.
    pub fn encode(&self) -> Vec<u8> {
        let mut rest = Vec::new();
        rest.put_u32_le(self.0.len() as u32);
        rest.put_u32_le(0);
        for body in self.0.values() {
            rest.extend_from_slice(body);
            rest.resize(rest.len().next_multiple_of(ALIGN), 0);
        }
        part::seal(MAGIC, &rest)
    }

    /// Reads a part.
    pub fn read(bytes: &[u8]) -> Result<Cursors, BadPart> {
        let mut rest = Cut(part::check(MAGIC, bytes)?);
        let mut cursors = Cursors::default();
        let mut read = || {
            let (count, _) = (rest.u32()?, rest.u32()?);
            for _ in 0..count {
                let (id, body, behind) = split_body(rest.0)?;
                cursors.0.insert(id, body.to_vec());
                let padding = body.len().next_multiple_of(ALIGN) - body.len();
                rest = Cut(behind);
                rest.bytes(padding)?;
            }
            Some(())
        };
        read().ok_or(BadPart::Field { field: "list of cursors" })?;
        Ok(cursors)
    }
}

fn holder_epoch(body: &[u8]) -> u32 {
    let mut cut = Cut(body);
    cut.bytes(4).and_then(|_| cut.u32()).unwrap_or(0)
}

/// The cursor's id, its body and what lies behind.
fn split_body(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let mut cut = Cut(bytes);
    let (id, _epoch, _next, _at) = (cut.u32()?, cut.u32()?, cut.u64()?, cut.i64()?);
    let name = cut.u16()?;
    cut.bytes(usize::from(name))?;
    for _ in 0..cut.u32()? {
        let filter = cut.u16()?;
        cut.bytes(usize::from(filter))?;
    }
    let (body, behind) = bytes.split_at(bytes.len() - cut.0.len());
    Some((id, body, behind))
}
