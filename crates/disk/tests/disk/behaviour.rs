//! One suite of behaviours, run on a file system and in the simulation.

use std::io::ErrorKind;

use arioso_disk::{Access, Advice, Disk, Error, RealDisk, SimDisk, read_small, replace, temporary};

/// Names the behaviours, and runs each on both disks.
macro_rules! behaviours {
    ($($name:ident)*) => {
        mod real {
            $(#[test]
            fn $name() {
                let dir = tempfile::tempdir().unwrap();
                super::$name(&super::RealDisk::open(dir.path()).unwrap());
            })*
        }
        mod sim {
            $(#[test]
            fn $name() {
                super::$name(&super::SimDisk::new(7));
            })*
        }
    };
}

behaviours! {
    what_was_written_is_read
    a_read_ends_at_the_end_of_the_file
    an_exact_read_past_the_end_says_how_much_there_was
    a_vectored_write_is_the_parts_in_a_row
    a_file_is_cut_and_lengthened_with_zeros
    create_refuses_a_name_that_is_taken
    open_refuses_what_is_missing_and_directories
    a_file_opened_for_reading_is_not_written
    a_directory_is_listed_in_order
    a_directory_is_made_once_and_again
    a_path_through_a_file_is_refused
    a_rename_replaces_and_keeps_open_files
    directories_are_not_renamed
    a_removed_file_is_read_on_by_who_has_it_open
    a_directory_with_files_is_not_removed
    a_link_is_the_same_file_under_a_second_name
    paths_that_lead_outside_are_refused
    a_lock_excludes_until_it_is_dropped
    the_space_left_is_at_most_the_whole
    advice_is_taken_and_changes_nothing
    every_kind_of_sync_works
    a_small_file_is_replaced_whole
    a_replacement_cleans_up_after_a_cut_one
    a_small_file_that_is_too_large_is_refused
    errors_name_operation_path_and_place
}

fn names(disk: &dyn Disk, dir: &str) -> Vec<String> {
    disk.list(dir).unwrap().into_iter().map(|entry| entry.name).collect()
}

fn write(disk: &dyn Disk, path: &str, bytes: &[u8]) {
    disk.create(path).unwrap().write_at(bytes, 0).unwrap();
}

fn read(disk: &dyn Disk, path: &str) -> Vec<u8> {
    read_small(disk, path, 1 << 20).unwrap()
}

fn what_was_written_is_read(disk: &dyn Disk) {
    let file = disk.create("a").unwrap();
    file.write_at(b"hello", 3).unwrap();
    file.write_at(b"HE", 3).unwrap();
    assert_eq!(file.path(), "a");
    assert_eq!(file.len().unwrap(), 8);
    assert_eq!(read(disk, "a"), b"\0\0\0HEllo");
    let again = disk.open("a", Access::ReadWrite).unwrap();
    again.write_at(b"!", 8).unwrap();
    assert_eq!(read(disk, "a"), b"\0\0\0HEllo!");
}

fn a_read_ends_at_the_end_of_the_file(disk: &dyn Disk) {
    write(disk, "a", b"12345");
    let file = disk.open("a", Access::Read).unwrap();
    let mut buf = [0; 4];
    assert_eq!(file.read_at(&mut buf, 3).unwrap(), 2);
    assert_eq!(&buf[..2], b"45");
    assert_eq!(file.read_at(&mut buf, 5).unwrap(), 0);
    assert_eq!(file.read_at(&mut buf, 1 << 40).unwrap(), 0);
    assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
    assert!(file.read_at(&mut buf, u64::MAX).is_err());
}

fn an_exact_read_past_the_end_says_how_much_there_was(disk: &dyn Disk) {
    write(disk, "a", b"12345");
    let file = disk.open("a", Access::Read).unwrap();
    let mut buf = [0; 4];
    file.read_exact_at(&mut buf, 1).unwrap();
    assert_eq!(&buf, b"2345");
    let error = file.read_exact_at(&mut buf, 3).unwrap_err();
    assert_eq!(error, Error::Short { path: "a".into(), offset: 3, want: 4, got: 2 });
}

fn a_vectored_write_is_the_parts_in_a_row(disk: &dyn Disk) {
    let file = disk.create("a").unwrap();
    file.write_vectored_at(&[], 0).unwrap();
    file.write_vectored_at(&[b"", b""], 9).unwrap();
    assert_eq!(file.len().unwrap(), 0);
    file.write_vectored_at(&[b"", b"one", b"", b"two", b""], 2).unwrap();
    assert_eq!(read(disk, "a"), b"\0\0onetwo");
    // More parts than one system call takes.
    let many: Vec<Vec<u8>> = (0..3000_u32).map(|n| n.to_le_bytes().to_vec()).collect();
    let parts: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
    file.write_vectored_at(&parts, 8).unwrap();
    assert_eq!(read(disk, "a")[8..], many.concat());
}

fn a_file_is_cut_and_lengthened_with_zeros(disk: &dyn Disk) {
    write(disk, "a", b"12345");
    let file = disk.open("a", Access::ReadWrite).unwrap();
    file.set_len(2).unwrap();
    assert_eq!(read(disk, "a"), b"12");
    file.set_len(4).unwrap();
    assert_eq!(read(disk, "a"), b"12\0\0");
    file.set_len(0).unwrap();
    assert!(file.is_empty().unwrap());
}

fn create_refuses_a_name_that_is_taken(disk: &dyn Disk) {
    write(disk, "a", b"kept");
    assert!(disk.create("a").unwrap_err().is_taken());
    disk.create_dir("d").unwrap();
    assert!(disk.create("d").unwrap_err().is_taken());
    assert_eq!(read(disk, "a"), b"kept");
}

fn open_refuses_what_is_missing_and_directories(disk: &dyn Disk) {
    disk.create_dir("d").unwrap();
    for access in [Access::Read, Access::ReadWrite] {
        assert!(disk.open("a", access).unwrap_err().is_not_found());
        assert!(disk.open("d/a", access).unwrap_err().is_not_found());
        assert!(disk.open("e/a", access).unwrap_err().is_not_found());
        assert_eq!(disk.open("d", access).unwrap_err().kind(), Some(ErrorKind::IsADirectory));
    }
}

fn a_file_opened_for_reading_is_not_written(disk: &dyn Disk) {
    write(disk, "a", b"kept");
    let file = disk.open("a", Access::Read).unwrap();
    assert!(file.write_at(b"x", 0).is_err());
    assert!(file.write_vectored_at(&[b"x"], 0).is_err());
    assert_eq!(file.set_len(0).unwrap_err().kind(), Some(ErrorKind::InvalidInput));
    assert_eq!(read(disk, "a"), b"kept");
}

fn a_directory_is_listed_in_order(disk: &dyn Disk) {
    assert_eq!(disk.list("").unwrap(), []);
    for name in ["b", "a", "c"] {
        write(disk, name, name.as_bytes());
    }
    disk.create_dir("bb").unwrap();
    write(disk, "bb/inner", b"123");
    let list = disk.list("").unwrap();
    let rows: Vec<_> = list.iter().map(|e| (e.name.as_str(), e.bytes, e.is_dir)).collect();
    assert_eq!(rows, [("a", 1, false), ("b", 1, false), ("bb", 0, true), ("c", 1, false)]);
    assert_eq!(names(disk, "bb"), ["inner"]);
    assert!(disk.list("none").unwrap_err().is_not_found());
    assert_eq!(disk.list("a").unwrap_err().kind(), Some(ErrorKind::NotADirectory));
}

fn a_directory_is_made_once_and_again(disk: &dyn Disk) {
    disk.create_dir("d").unwrap();
    write(disk, "d/a", b"kept");
    disk.create_dir("d").unwrap();
    disk.create_dir("d/e").unwrap();
    assert_eq!(names(disk, "d"), ["a", "e"]);
    assert!(disk.create_dir("d/a").unwrap_err().is_taken());
    assert!(disk.create_dir("none/e").unwrap_err().is_not_found());
}

fn a_path_through_a_file_is_refused(disk: &dyn Disk) {
    write(disk, "a", b"");
    let kinds = [
        disk.create("a/b").unwrap_err().kind(),
        disk.open("a/b", Access::Read).unwrap_err().kind(),
        disk.create_dir("a/b").unwrap_err().kind(),
        disk.remove("a/b").unwrap_err().kind(),
        disk.sync_dir("a").unwrap_err().kind(),
    ];
    assert_eq!(kinds, [Some(ErrorKind::NotADirectory); 5]);
}

fn a_rename_replaces_and_keeps_open_files(disk: &dyn Disk) {
    write(disk, "a", b"new");
    write(disk, "b", b"old");
    disk.create_dir("d").unwrap();
    let (new, old) = (disk.open("a", Access::ReadWrite).unwrap(), disk.open("b", Access::Read).unwrap());
    disk.rename("a", "b").unwrap();
    assert_eq!(names(disk, ""), ["b", "d"]);
    new.write_at(b"N", 0).unwrap();
    assert_eq!(read(disk, "b"), b"New");
    let mut buf = [0; 3];
    old.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"old");
    disk.rename("b", "d/c").unwrap();
    assert_eq!((names(disk, ""), names(disk, "d")), (vec!["d".into()], vec!["c".into()]));
    assert!(disk.rename("b", "e").unwrap_err().is_not_found());
    disk.rename("d/c", "d/c").unwrap();
    assert_eq!(read(disk, "d/c"), b"New");
}

fn directories_are_not_renamed(disk: &dyn Disk) {
    disk.create_dir("d").unwrap();
    write(disk, "a", b"");
    assert_eq!(disk.rename("d", "e").unwrap_err().kind(), Some(ErrorKind::IsADirectory));
    assert_eq!(disk.rename("a", "d").unwrap_err().kind(), Some(ErrorKind::IsADirectory));
    assert_eq!(names(disk, ""), ["a", "d"]);
}

fn a_removed_file_is_read_on_by_who_has_it_open(disk: &dyn Disk) {
    write(disk, "a", b"still");
    let file = disk.open("a", Access::Read).unwrap();
    disk.remove("a").unwrap();
    assert!(disk.remove("a").unwrap_err().is_not_found());
    write(disk, "a", b"other");
    disk.sync_dir("").unwrap();
    let mut buf = [0; 5];
    file.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"still");
    assert_eq!(read(disk, "a"), b"other");
}

fn a_directory_with_files_is_not_removed(disk: &dyn Disk) {
    disk.create_dir("d").unwrap();
    write(disk, "d/a", b"");
    assert_eq!(disk.remove("d").unwrap_err().kind(), Some(ErrorKind::DirectoryNotEmpty));
    disk.remove("d/a").unwrap();
    disk.remove("d").unwrap();
    assert_eq!(disk.list("").unwrap(), []);
}

fn a_link_is_the_same_file_under_a_second_name(disk: &dyn Disk) {
    write(disk, "a", b"one");
    write(disk, "taken", b"");
    disk.create_dir("d").unwrap();
    disk.link("a", "d/b").unwrap();
    disk.open("d/b", Access::ReadWrite).unwrap().write_at(b"O", 0).unwrap();
    assert_eq!(read(disk, "a"), b"One");
    // Renaming one name of a file to another does nothing.
    disk.rename("a", "d/b").unwrap();
    assert_eq!(names(disk, ""), ["a", "d", "taken"]);
    disk.remove("a").unwrap();
    assert_eq!(read(disk, "d/b"), b"One");
    assert!(disk.link("d/b", "taken").unwrap_err().is_taken());
    assert!(disk.link("none", "c").unwrap_err().is_not_found());
    assert_eq!(disk.link("d", "c").unwrap_err().kind(), Some(ErrorKind::PermissionDenied));
}

fn paths_that_lead_outside_are_refused(disk: &dyn Disk) {
    write(disk, "a", b"");
    for path in ["/a", "../a", "a/../b", "./a", "a//b", "a/", "nul\0", ".."] {
        let refused = |result: Result<(), Error>| {
            let error = result.unwrap_err();
            assert!(matches!(&error, Error::Path { path: named, .. } if named == path), "{error}");
        };
        refused(disk.create(path).map(drop));
        refused(disk.open(path, Access::Read).map(drop));
        refused(disk.list(path).map(drop));
        refused(disk.create_dir(path));
        refused(disk.rename(path, "b"));
        refused(disk.rename("a", path));
        refused(disk.remove(path));
        refused(disk.link("a", path));
        refused(disk.sync_dir(path));
        refused(disk.lock(path).map(drop));
    }
    // The data directory itself is listed and synced, and nothing else.
    assert!(disk.create("").is_err() && disk.remove("").is_err() && disk.create_dir("").is_err());
    assert_eq!(names(disk, ""), ["a"]);
}

fn a_lock_excludes_until_it_is_dropped(disk: &dyn Disk) {
    let lock = disk.lock("lock").unwrap();
    let Err(Error::Locked { path, holder: Some(holder) }) = disk.lock("lock") else {
        panic!("the lock is held, and its holder is known");
    };
    assert_eq!((path.as_str(), read(disk, "lock")), ("lock", format!("{holder}\n").into_bytes()));
    let other = disk.lock("other").unwrap();
    drop(lock);
    let lock = disk.lock("lock").unwrap();
    drop((lock, other));
}

fn the_space_left_is_at_most_the_whole(disk: &dyn Disk) {
    let space = disk.space().unwrap();
    assert!(space.total > 0 && space.available <= space.total, "{space:?}");
}

fn advice_is_taken_and_changes_nothing(disk: &dyn Disk) {
    write(disk, "a", b"12345");
    let file = disk.open("a", Access::Read).unwrap();
    let stretch = |bytes| Advice::WillNeed { offset: 1, bytes };
    for advice in [Advice::Sequential, stretch(2), stretch(0), stretch(1 << 40), Advice::DontNeed] {
        file.advise(advice).unwrap();
    }
    assert_eq!(read(disk, "a"), b"12345");
}

fn every_kind_of_sync_works(disk: &dyn Disk) {
    disk.create_dir("d").unwrap();
    let file = disk.create("d/a").unwrap();
    file.write_at(b"1", 0).unwrap();
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    disk.sync_dir("d").unwrap();
    disk.sync_dir("").unwrap();
    assert!(disk.sync_dir("none").unwrap_err().is_not_found());
}

fn a_small_file_is_replaced_whole(disk: &dyn Disk) {
    disk.create_dir("d").unwrap();
    replace(disk, "d/manifest", b"a first, long one").unwrap();
    assert_eq!(read(disk, "d/manifest"), b"a first, long one");
    replace(disk, "d/manifest", b"second").unwrap();
    assert_eq!(read(disk, "d/manifest"), b"second");
    replace(disk, "top", b"").unwrap();
    assert_eq!(read(disk, "top"), b"");
    assert_eq!((names(disk, "d"), names(disk, "")), (vec!["manifest".into()], vec!["d".into(), "top".into()]));
}

fn a_replacement_cleans_up_after_a_cut_one(disk: &dyn Disk) {
    write(disk, &temporary("manifest"), b"a longer piece left by a crash");
    replace(disk, "manifest", b"new").unwrap();
    assert_eq!(read(disk, "manifest"), b"new");
    assert_eq!(names(disk, ""), ["manifest"]);
}

fn a_small_file_that_is_too_large_is_refused(disk: &dyn Disk) {
    write(disk, "a", b"12345");
    assert_eq!(read_small(disk, "a", 5).unwrap(), b"12345");
    let error = read_small(disk, "a", 4).unwrap_err();
    assert_eq!(error, Error::TooLarge { path: "a".into(), bytes: 5, bytes_max: 4 });
    assert!(read_small(disk, "none", 4).unwrap_err().is_not_found());
}

fn errors_name_operation_path_and_place(disk: &dyn Disk) {
    let text = |error: Error| error.to_string();
    assert_eq!(text(disk.open("d/a", Access::Read).unwrap_err()), "open d/a: No such file or directory (os error 2)");
    write(disk, "a", b"");
    let file = disk.open("a", Access::Read).unwrap();
    assert_eq!(text(file.write_at(b"1", 4096).unwrap_err()), "write a at 4096: Bad file descriptor (os error 9)");
    let outside = "create \"../a\": a path is relative, its parts separated by single '/', none of them '.' or '..'";
    assert_eq!(text(disk.create("../a").unwrap_err()), outside);
}

#[test]
fn a_real_disk_is_made_with_the_directories_above_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("some/data");
    assert!(RealDisk::open(&root).unwrap_err().is_not_found());
    RealDisk::create(&root).unwrap().create("a").unwrap();
    assert_eq!(names(&RealDisk::create(&root).unwrap(), ""), ["a"]);
    let file = RealDisk::open(root.join("a")).unwrap_err();
    assert_eq!(file.kind(), Some(ErrorKind::NotADirectory));
}

#[test]
fn a_name_that_is_not_text_is_not_listed() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"\xff")), b"").unwrap();
    std::fs::write(dir.path().join("a"), b"").unwrap();
    assert_eq!(names(&RealDisk::open(dir.path()).unwrap(), ""), ["a"]);
}

#[test]
fn a_reader_excludes_a_holder_and_the_other_way_round_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(dir.path()).unwrap();
    assert!(disk.lock_unchanged("lock").unwrap().is_none(), "nobody ever held it");
    assert_eq!(names(&disk, ""), [""; 0]);
    let lock = disk.lock("lock").unwrap();
    let held = disk.lock_unchanged("lock").unwrap_err();
    assert!(matches!(held, Error::Locked { holder: Some(pid), .. } if pid == std::process::id()), "{held}");
    drop(lock);
    let before = read(&disk, "lock");
    let readers = (disk.lock_unchanged("lock").unwrap().unwrap(), disk.lock_unchanged("lock").unwrap().unwrap());
    assert!(matches!(disk.lock("lock"), Err(Error::Locked { .. })));
    assert_eq!(read(&disk, "lock"), before);
    drop(readers);
    drop(disk.lock("lock").unwrap());
}
