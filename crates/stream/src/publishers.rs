//! The names of publishers: a bounded two-way table.
//!
//! Ids are given by the caller and never reused; a publisher that is dropped frees its place, not its id.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};

use crate::Result;
use crate::error::{Error, Shown, Text};
use crate::topic::{PublisherId, check_text, utf8};

/// The longest publisher's name.
pub const PUBLISHER_NAME_BYTES_MAX: usize = 256;

/// The names of a stream's publishers.
#[derive(Debug)]
pub struct PublisherNames {
    publishers_max: usize,
    hash: FixedState,
    by_id: HashMap<PublisherId, Box<str>, FixedState>,
    by_name: HashTable<PublisherId>,
    name_bytes: usize,
}

/// Checks a publisher's name: 1 to 256 bytes without control characters.
pub fn check_publisher_name(name: &str) -> Result<()> {
    check_text(Text::Publisher, name)
}

/// Checks a publisher's name that came from outside as bytes.
pub fn publisher_name_from_bytes(name: &[u8]) -> Result<&str> {
    let name = utf8(Text::Publisher, name)?;
    check_publisher_name(name)?;
    Ok(name)
}

impl PublisherNames {
    /// A table that takes up to `publishers_max` names. The seed keeps names from being chosen to collide.
    pub fn new(publishers_max: usize, hash_seed: u64) -> PublisherNames {
        let hash = FixedState::with_seed(hash_seed);
        PublisherNames {
            publishers_max,
            hash: hash.clone(),
            by_id: HashMap::with_hasher(hash),
            by_name: HashTable::new(),
            name_bytes: 0,
        }
    }

    /// Names a publisher. The same id and name again is fine and changes nothing; what is refused changes nothing.
    pub fn insert(&mut self, id: PublisherId, name: &str) -> Result<()> {
        check_publisher_name(name)?;
        let what = Text::Publisher;
        let value = || Shown::new(name);
        match (self.get(name), self.name(id)) {
            (Some(known), _) if known == id => return Ok(()),
            (Some(known), _) => {
                return Err(Error::NameTaken { what, id: id.0, value: value(), known: known.0 });
            }
            (None, Some(known)) => {
                return Err(Error::IdTaken { what, id: id.0, value: value(), known: Shown::new(known) });
            }
            (None, None) => {}
        }
        if self.by_id.len() >= self.publishers_max {
            let max = self.publishers_max as u64;
            return Err(Error::NamesFull { what, value: value(), max, of: "publishers (publishers-max)" });
        }
        self.by_id.insert(id, name.into());
        self.name_bytes += name.len();
        let PublisherNames { hash, by_id, by_name, .. } = self;
        by_name.insert_unique(hash.hash_one(name), id, |id| hash.hash_one(&*by_id[id]));
        Ok(())
    }

    /// The id of a publisher.
    pub fn get(&self, name: &str) -> Option<PublisherId> {
        self.by_name.find(self.hash.hash_one(name), |id| &*self.by_id[id] == name).copied()
    }

    /// The name of a publisher.
    pub fn name(&self, id: PublisherId) -> Option<&str> {
        self.by_id.get(&id).map(|name| &**name)
    }

    /// Drops a publisher and returns its name.
    pub fn remove(&mut self, id: PublisherId) -> Option<Box<str>> {
        let hash = self.hash.hash_one(self.name(id)?);
        if let Ok(entry) = self.by_name.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
        let name = self.by_id.remove(&id)?;
        self.name_bytes -= name.len();
        Some(name)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The bytes of memory this takes, from the capacities of its parts.
    pub fn memory_bytes(&self) -> usize {
        self.by_id.allocation_size() + self.by_name.allocation_size() + self.name_bytes + size_of::<PublisherNames>()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::expect;

    use super::*;

    #[test]
    fn a_name_and_an_id_belong_together_until_dropped() {
        let mut names = PublisherNames::new(3, 5);
        let mut told = String::new();
        let mut insert = |names: &mut PublisherNames, id: u32, name: &str| {
            let _ = match names.insert(PublisherId(id), name) {
                Ok(()) => writeln!(told, "{id} {name} fine"),
                Err(error) => writeln!(told, "{error}"),
            };
        };
        for (id, name) in [
            (7, "orders"),
            (7, "orders"),
            (7, "other"),
            (8, "orders"),
            (9, "b"),
            (1, "c"),
            (2, "d"),
            (3, ""),
            (3, "a\nb"),
        ] {
            insert(&mut names, id, name);
        }
        assert_eq!(names.remove(PublisherId(9)).as_deref(), Some("b"));
        assert_eq!(names.remove(PublisherId(9)), None);
        insert(&mut names, 2, "d");
        insert(&mut names, 4, &"long".repeat(100));
        expect![[r#"
            7 orders fine
            7 orders fine
            publisher name "other" can't have id 7: that is "orders", and ids are never reused
            publisher name "orders" can't have id 8: it already has id 7
            9 b fine
            1 c fine
            publisher name "d" is refused: a stream has at most 3 publishers (publishers-max)
            publisher name is empty: it needs 1 to 256 bytes
            publisher name "a\nb" has the control character U+000A at byte 1, level 1: none is allowed
            2 d fine
            publisher name "longlonglonglonglonglonglonglonglonglonglonglonglonglonglong"… has 400 bytes: at most 256 are allowed
        "#]].assert_eq(&told);
        assert_eq!(
            (names.get("orders"), names.get("b"), names.get("d")),
            (Some(PublisherId(7)), None, Some(PublisherId(2)))
        );
        assert_eq!((names.name(PublisherId(1)), names.name(PublisherId(9)), names.len()), (Some("c"), None, 3));
    }

    #[test]
    fn memory_is_given_back_with_names() {
        let mut names = PublisherNames::new(10_000, 5);
        for id in 0..10_000 {
            names.insert(PublisherId(id), &format!("{}{id}", "n".repeat(200))).unwrap();
        }
        let full = names.memory_bytes();
        assert!(full > 10_000 * 200);
        for id in 0..10_000 {
            assert!(names.remove(PublisherId(id)).is_some());
        }
        assert!(names.is_empty() && names.memory_bytes() * 4 < full);
        assert!(publisher_name_from_bytes(b"\xff").is_err());
    }
}
