//! The files of a tree, one after the other, from many of its directories in turn: as if each directory were a source of its
//! own. Nothing but the names on the way is held in memory.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use arioso_stream::topic::Topic;

/// Files that are taken unless everything is wanted: what a machine of two cores does in well under a minute.
pub const FILES_MAX: u64 = 20_000;
/// Bytes that are taken unless everything is wanted.
pub const BYTES_MAX: u64 = 1 << 30;
/// Files that are taken at most: each is a topic, and a bus has at most so many unless told otherwise.
pub const FILES_MAX_ALL: u64 = 4_000_000;
/// The largest file that fits a message.
pub const PAYLOAD_BYTES_MAX: u64 = 16 << 20;
/// The first level of every file's topic.
pub const ROOT_LEVEL: &str = "files";
/// Directories that are walked at the same time.
const LANES: usize = 256;
/// Names that are told of each kind of file left out.
const NAMED_MAX: usize = 5;

/// Why a file was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It does not fit a message.
    TooLarge,
    /// Its path is no topic.
    NoTopic,
    /// It can't be read.
    Unreadable,
    /// It changed while it was read.
    Changed,
    /// A link, a socket, a device.
    NoFile,
}

impl Why {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Why::TooLarge => "larger than a payload may be (16 MiB)",
            Why::NoTopic => "with a path that is no topic",
            Why::Unreadable => "that can't be read",
            Why::Changed => "that changed while they were read",
            Why::NoFile => "that are links, sockets or devices, not files",
        }
    }
}

/// What was left out: how many of each kind, and the first few names.
#[derive(Debug, Default)]
pub struct LeftOut(BTreeMap<Why, (u64, Vec<String>)>);

impl LeftOut {
    /// One more.
    pub fn add(&mut self, why: Why, what: String) {
        let (count, names) = self.0.entry(why).or_default();
        *count += 1;
        if names.len() < NAMED_MAX {
            names.push(what);
        }
    }

    /// How many there are of every kind.
    pub fn count(&self) -> u64 {
        self.0.values().map(|(count, _)| count).sum()
    }

    /// Kind by kind: how many, the first names.
    pub fn iter(&self) -> impl Iterator<Item = (Why, u64, &[String])> {
        self.0.iter().map(|(why, (count, names))| (*why, *count, &names[..]))
    }
}

/// How much of a tree is taken.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Limits {
    /// The usual ones, or as good as none.
    pub fn new(all: bool) -> Limits {
        if all {
            Limits { files: FILES_MAX_ALL, bytes: u64::MAX }
        } else {
            Limits { files: FILES_MAX, bytes: BYTES_MAX }
        }
    }
}

/// A file that was found.
#[derive(Debug)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// The topic of its path.
    pub topic: String,
    /// Its length.
    pub bytes: u64,
}

/// One directory being walked.
struct Level {
    dir: PathBuf,
    names: std::vec::IntoIter<OsString>,
}

/// A row of directories, one below the other; `deep`: goes down into them.
struct Lane {
    levels: Vec<Level>,
    deep: bool,
}

/// A walk over a tree.
pub struct Walk {
    root: PathBuf,
    /// Not entered: the bus's own directory.
    except: PathBuf,
    lanes: VecDeque<Lane>,
    limits: Limits,
    files: u64,
    bytes: u64,
    /// The limits ended it, not the tree.
    cut: bool,
}

impl Walk {
    /// Over the files below `root`. What can't be walked is noted in `left`.
    pub fn new(root: &Path, except: &Path, limits: Limits, left: &mut LeftOut) -> Walk {
        let mut walk = Walk {
            root: root.to_owned(),
            except: except.to_owned(),
            lanes: VecDeque::new(),
            limits,
            files: 0,
            bytes: 0,
            cut: false,
        };
        walk.spread(left);
        walk
    }

    /// Opens directories breadth first until there are enough to take turns.
    fn spread(&mut self, left: &mut LeftOut) {
        let mut dirs = VecDeque::from([PathBuf::new()]);
        while dirs.len() + self.lanes.len() < LANES
            && let Some(dir) = dirs.pop_front()
        {
            let Some(names) = self.names(&dir, left) else { continue };
            let below: Vec<PathBuf> =
                names.iter().map(|name| dir.join(name)).filter(|path| self.is_dir(path)).collect();
            dirs.extend(below);
            self.lanes.push_back(Lane { levels: vec![Level { dir, names: names.into_iter() }], deep: false });
        }
        for dir in dirs {
            if let Some(names) = self.names(&dir, left) {
                self.lanes.push_back(Lane { levels: vec![Level { dir, names: names.into_iter() }], deep: true });
            }
        }
    }

    fn is_dir(&self, relative: &Path) -> bool {
        fs::symlink_metadata(self.root.join(relative)).is_ok_and(|about| about.is_dir())
    }

    /// The names in a directory, sorted, so that two walks see the same.
    fn names(&self, relative: &Path, left: &mut LeftOut) -> Option<Vec<OsString>> {
        let dir = self.root.join(relative);
        if dir == self.except {
            return None;
        }
        let list = || fs::read_dir(&dir)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>();
        match list() {
            Ok(mut names) => {
                names.sort_unstable();
                Some(names)
            }
            Err(error) => {
                left.add(Why::Unreadable, format!("{}: {error}", dir.display()));
                None
            }
        }
    }

    /// Whether there was more than the limits allow.
    pub fn was_cut(&self) -> bool {
        self.cut
    }

    /// The next file; `None` behind the last, or where the limits end it.
    pub fn next(&mut self, left: &mut LeftOut) -> Option<Found> {
        while let Some(mut lane) = self.lanes.pop_front() {
            let Some(found) = self.step(&mut lane, left) else { continue };
            self.lanes.push_back(lane);
            if self.files == self.limits.files || self.bytes.saturating_add(found.bytes) > self.limits.bytes {
                self.cut = true;
                self.lanes.clear();
                return None;
            }
            self.files += 1;
            self.bytes += found.bytes;
            return Some(found);
        }
        None
    }

    /// The next file of a lane; `None`: it has no more.
    fn step(&self, lane: &mut Lane, left: &mut LeftOut) -> Option<Found> {
        loop {
            let level = lane.levels.last_mut()?;
            let Some(name) = level.names.next() else {
                lane.levels.pop();
                continue;
            };
            let relative = level.dir.join(name);
            let path = self.root.join(&relative);
            let about = match fs::symlink_metadata(&path) {
                Ok(about) => about,
                Err(error) => {
                    left.add(Why::Unreadable, format!("{}: {error}", path.display()));
                    continue;
                }
            };
            if about.is_dir() {
                if lane.deep
                    && let Some(names) = self.names(&relative, left)
                {
                    lane.levels.push(Level { dir: relative, names: names.into_iter() });
                }
            } else if !about.is_file() {
                left.add(Why::NoFile, path.display().to_string());
            } else if about.len() > PAYLOAD_BYTES_MAX {
                left.add(Why::TooLarge, format!("{} ({} bytes)", path.display(), about.len()));
            } else {
                match topic_of(&relative) {
                    Ok(topic) => return Some(Found { path, topic, bytes: about.len() }),
                    Err(why) => left.add(Why::NoTopic, format!("{}: {why}", path.display())),
                }
            }
        }
    }
}

/// The topic of a path below the root.
fn topic_of(relative: &Path) -> Result<String, String> {
    let text = relative.to_str().ok_or("it is not UTF-8")?;
    let topic = format!("{ROOT_LEVEL}/{text}");
    Topic::new(&topic).and_then(Topic::check_publishable).map_err(|bad| bad.to_string())?;
    Ok(topic)
}

/// Reads a file whole: the walk has seen that it fits a message. `Err`: why it is left out.
pub fn load(found: &Found) -> Result<Vec<u8>, (Why, String)> {
    let shown = found.path.display();
    let unreadable = |error: io::Error| (Why::Unreadable, format!("{shown}: {error}"));
    let file = File::open(&found.path).map_err(unreadable)?;
    let before = file.metadata().map_err(unreadable)?;
    let mut bytes = Vec::with_capacity(usize::try_from(before.len().min(PAYLOAD_BYTES_MAX) + 1).unwrap_or(0));
    (&file).take(PAYLOAD_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let after = file.metadata().map_err(unreadable)?;
    let same = before.len() == after.len() && before.modified().ok() == after.modified().ok();
    if !same || bytes.len() as u64 != before.len() {
        return Err((Why::Changed, format!("{shown} ({} bytes, then {})", before.len(), bytes.len())));
    }
    Ok(bytes)
}

/// The tree that is taken when none is named: the Rust toolchain's, else the machine's documentation, else what is here.
pub fn default_tree() -> PathBuf {
    let rustc = std::process::Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = rustc.ok().filter(|out| out.status.success()).and_then(|out| String::from_utf8(out.stdout).ok());
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".rustup"));
    let candidates = [sysroot.map(|path| PathBuf::from(path.trim())), home, Some(PathBuf::from("/usr/share/doc"))];
    candidates.into_iter().flatten().find(|path| path.is_dir()).unwrap_or_else(|| PathBuf::from("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk_all(root: &Path, limits: Limits) -> (Vec<String>, LeftOut, bool) {
        let mut left = LeftOut::default();
        let mut walk = Walk::new(root, Path::new(""), limits, &mut left);
        let mut topics = Vec::new();
        while let Some(found) = walk.next(&mut left) {
            topics.push(found.topic);
        }
        (topics, left, walk.was_cut())
    }

    #[test]
    fn every_file_is_found_once_from_many_directories_in_turn() {
        let dir = tempfile::tempdir().unwrap();
        let mut expected = Vec::new();
        for path in ["a", "b/1", "b/2", "b/deep/er/3", "c/1", "c/2"] {
            let file = dir.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, path).unwrap();
            expected.push(format!("files/{path}"));
        }
        let (mut topics, left, cut) = walk_all(dir.path(), Limits::new(false));
        let position = |topic: &str| topics.iter().position(|t| t == topic).unwrap();
        assert!(position("files/c/1") < position("files/b/2"), "{topics:?}");
        topics.sort();
        assert_eq!((topics, left.count(), cut), (expected, 0, false));
        let (topics, _, cut) = walk_all(dir.path(), Limits { files: 2, bytes: u64::MAX });
        assert_eq!((topics.len(), cut), (2, true));
        let (topics, _, cut) = walk_all(dir.path(), Limits { files: 100, bytes: 5 });
        assert!(topics.len() < 6 && cut, "{topics:?}");
    }

    #[test]
    fn what_is_no_message_is_left_out_and_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("star*"), "x").unwrap();
        fs::write(dir.path().join("good"), "x").unwrap();
        File::create(dir.path().join("large")).unwrap().set_len(PAYLOAD_BYTES_MAX + 1).unwrap();
        std::os::unix::fs::symlink("good", dir.path().join("link")).unwrap();
        let (topics, left, _) = walk_all(dir.path(), Limits::new(true));
        assert_eq!(topics, ["files/good"]);
        let kinds: Vec<_> = left.iter().map(|(why, count, names)| (why, count, names.len())).collect();
        assert_eq!(kinds, [(Why::TooLarge, 1, 1), (Why::NoTopic, 1, 1), (Why::NoFile, 1, 1)]);
        let gone = Found { path: dir.path().join("gone"), topic: "files/gone".into(), bytes: 1 };
        assert_eq!(load(&gone).unwrap_err().0, Why::Unreadable);
    }
}
