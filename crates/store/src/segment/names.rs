//! The names of topic ids, found in files: a footer names all it uses, but a batch only what was not durable yet.

use hashbrown::HashMap;

use crate::Result;
use crate::directory::{DirectoryReader, Entries};

/// Topic ids whose names are wanted; `None` until found.
pub type WantedNames = HashMap<u32, Option<Box<str>>, foldhash::fast::FixedState>;

/// Tells the names of topic ids.
pub trait TopicNames {
    /// Fills in the names it knows.
    fn fill(&self, wanted: &mut WantedNames) -> Result<()>;
}

/// Names found by walking over directories, the newest first, until none is wanted any more.
#[derive(Debug, Default)]
pub struct FileNames {
    directories: Vec<DirectoryReader>,
}

impl FileNames {
    /// Over these directories, in the order in which they should be walked.
    pub fn new(directories: Vec<DirectoryReader>) -> FileNames {
        FileNames { directories }
    }
}

impl TopicNames for FileNames {
    fn fill(&self, wanted: &mut WantedNames) -> Result<()> {
        let mut missing = wanted.values().filter(|name| name.is_none()).count();
        for directory in &self.directories {
            if missing == 0 {
                return Ok(());
            }
            let mut scan = directory.scan(b"");
            while scan.advance()? {
                let entry = scan.entry();
                if let Some(name @ None) = wanted.get_mut(&entry.topic)
                    && let Ok(text) = std::str::from_utf8(entry.name)
                {
                    *name = Some(text.into());
                    missing -= 1;
                }
            }
        }
        Ok(())
    }
}

/// What a topic is called whose name was lost with a damaged batch: first levels with `$` belong to the bus.
pub fn lost_name(topic: u32) -> Box<str> {
    format!("$lost/{topic}").into()
}
