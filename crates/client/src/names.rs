//! Names of topics by stream-wide id, as one connection told them: grows, never changes, is read without a lock.
//!
//! ```text
//! id = 8 bits | 8 bits | 8 bits | 8 bits      a tree four levels deep, nodes made when first needed
//! ```
//! Ids are dense in the stream but sparse in a subscription; a lone id costs three nodes of 4 to 6 KiB.

use std::sync::OnceLock;

type Node<T> = [OnceLock<T>; 256];
type Boxed<T> = Box<Node<T>>;

/// Names of topics.
#[derive(Debug)]
pub struct Names {
    root: Node<Boxed<Boxed<Boxed<Box<str>>>>>,
}

fn node<T>() -> Node<T> {
    std::array::from_fn(|_| OnceLock::new())
}

fn boxed<T>() -> Boxed<T> {
    Box::new(node())
}

impl Names {
    pub(crate) fn new() -> Names {
        Names { root: node() }
    }

    /// The name of a topic, if the server told it.
    pub fn get(&self, topic: u32) -> Option<&str> {
        let [a, b, c, d] = topic.to_be_bytes().map(usize::from);
        let leaf = self.root[a].get()?[b].get()?[c].get()?;
        leaf[d].get().map(|name| &**name)
    }

    /// Keeps a name. `Err`: the topic has another one already. `Ok(true)`: it is new.
    pub(crate) fn insert(&self, topic: u32, name: &str) -> Result<bool, &str> {
        let [a, b, c, d] = topic.to_be_bytes().map(usize::from);
        let leaf = self.root[a].get_or_init(boxed)[b].get_or_init(boxed)[c].get_or_init(boxed);
        if leaf[d].set(name.into()).is_ok() {
            return Ok(true);
        }
        match leaf[d].get() {
            Some(known) if **known == *name => Ok(false),
            Some(known) => Err(known),
            None => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_keeps_its_first_name() {
        let names = Names::new();
        assert_eq!(names.get(7), None);
        for id in [0, 7, 255, 256, 70_000, u32::MAX] {
            assert_eq!(names.insert(id, &format!("t/{id}")), Ok(true));
            assert_eq!(names.insert(id, &format!("t/{id}")), Ok(false));
            assert_eq!(names.insert(id, "other"), Err(&*format!("t/{id}")));
            assert_eq!(names.get(id), Some(&*format!("t/{id}")));
        }
        assert_eq!(names.get(8), None);
    }
}
