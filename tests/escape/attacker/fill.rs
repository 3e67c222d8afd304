//! Ways to fill a disk or the memory, a mebibyte at a time, as fast as a disk of our days is. Says after each how far it
//! got.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::PermissionsExt;

use std::time::Duration;

use super::{c, checked, say};

const MEBIBYTE: usize = 1 << 20;
/// What a mebibyte takes at least, whatever the disk of these tests is made of: some hundreds in a second.
const PACE: Duration = Duration::from_millis(3);

/// Ways that make files without anything in them.
const COUNTED: [&str; 2] = ["files", "many"];

/// Fills with so many mebibytes, or files, in one of the ways; `undumped-` in front of it hides what is open.
pub(crate) fn fill(way: &str, amount: &str) {
    let amount: usize = amount.parse().unwrap();
    let hidden = way.strip_prefix("undumped-");
    if hidden.is_some() {
        // SAFETY: no pointers.
        checked(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) }).unwrap();
    }
    let way = hidden.unwrap_or(way);
    // What must stay until the end.
    let mut kept: Vec<File> = Vec::new();
    let mut memory: Vec<Vec<u8>> = Vec::new();
    let shared = if way == "shared" { shared(amount) } else { std::ptr::null_mut() };
    match way {
        "deep" => deep(),
        // SAFETY: the name outlives the call, and the descriptor is nobody else's.
        "memfd" => kept.push(unsafe { File::from_raw_fd(libc::memfd_create(c("fill").as_ptr(), 0)) }),
        _ => {}
    }
    for number in 0..amount {
        let name = format!("fill-{number}");
        let done = match way {
            "plain" | "deep" => written(&name).map(drop),
            "nameless" => written(&name).and_then(|file| {
                kept.push(file);
                fs::remove_file(&name)
            }),
            "mapped" => mapped(&name),
            "locked" => locked(number),
            "reserved" => reserved(&name),
            "grown" => grown(),
            "linked" => written(&name).and_then(|_| linked(&name)),
            "sparse" => File::create(&name).and_then(|file| file.set_len(1 << 30)),
            "files" => empty(number, 100),
            "many" => empty(number, usize::MAX),
            "memory" => {
                memory.push(vec![7; MEBIBYTE]);
                Ok(())
            }
            "memfd" => kept.first_mut().map_or(Ok(()), |file| file.write_all(&[7; MEBIBYTE])),
            "shared" => {
                // SAFETY: the mapping has room for each of them.
                unsafe { shared.add(number * MEBIBYTE).write_bytes(7, MEBIBYTE) };
                Ok(())
            }
            "tmp" => fs::write(format!("/tmp/{name}"), [7; MEBIBYTE]),
            "forked" => forked(),
            other => panic!("no such way: {other}"),
        };
        if !COUNTED.contains(&way) {
            std::thread::sleep(PACE);
        }
        if let Err(error) = done {
            say("error", error);
            break;
        }
        if !COUNTED.contains(&way) || number % 100 == 99 {
            say("filled", number + 1);
        }
    }
    say("end", "reached");
    drop(memory);
}

/// Memory that children could have in common, so many mebibytes.
fn shared(mebibytes: usize) -> *mut u8 {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel chooses the place.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), mebibytes * MEBIBYTE, access, kind, -1, 0) };
    assert!(at != libc::MAP_FAILED);
    at.cast()
}

/// A child that has a mebibyte of its own and stays.
fn forked() -> io::Result<()> {
    // SAFETY: this program has one thread; the child writes to its own memory and waits to be ended.
    match unsafe { libc::fork() } {
        0 => {
            let own = vec![7u8; MEBIBYTE];
            // SAFETY: no pointers.
            unsafe {
                libc::alarm(60);
                libc::pause();
                libc::_exit(i32::from(own[0]))
            }
        }
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Children that have the same memory as their parent, for a second.
pub(crate) fn family(mebibytes: &str, children: &str) {
    let own = vec![7u8; mebibytes.parse::<usize>().unwrap() * MEBIBYTE];
    let children: usize = children.parse().unwrap();
    for number in 0..children {
        forked().unwrap();
        say("children", number + 1);
    }
    std::thread::sleep(Duration::from_secs(1));
    say("kept", own.len());
}

fn written(name: &str) -> io::Result<File> {
    let mut file = File::create(name)?;
    file.write_all(&[7; MEBIBYTE])?;
    file.sync_data()?;
    Ok(file)
}

/// A file that nothing but a mapping holds.
fn mapped(name: &str) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(name)?;
    file.set_len(MEBIBYTE as u64)?;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: the kernel chooses the place; the length is that of the file.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), MEBIBYTE, access, kind, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    fs::remove_file(name)?;
    drop(file);
    // SAFETY: the mapping is as long as this and stays until the end.
    checked(unsafe {
        std::ptr::write_bytes(at.cast::<u8>(), 7, MEBIBYTE);
        libc::msync(at, MEBIBYTE, libc::MS_SYNC)
    })
    .map(drop)
}

/// A file in a directory that nobody may look into.
fn locked(number: usize) -> io::Result<()> {
    let folder = format!("locked-{number}");
    fs::create_dir(&folder)?;
    written(&format!("{folder}/file"))?;
    fs::set_permissions(&folder, Permissions::from_mode(0o000))
}

/// Room that no length tells of.
fn reserved(name: &str) -> io::Result<()> {
    let file = File::create(name)?;
    // SAFETY: no pointers.
    checked(unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, MEBIBYTE as i64) })?;
    file.sync_data()
}

/// More in a file that was there before.
fn grown() -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open("old")?;
    file.write_all(&[7; MEBIBYTE])?;
    file.sync_data()
}

fn linked(name: &str) -> io::Result<()> {
    (0..9).try_for_each(|number| fs::hard_link(name, format!("{name}-link-{number}")))
}

fn empty(number: usize, waits_after: usize) -> io::Result<()> {
    let file = File::create(format!("file-{number}"))?;
    if (number + 1).is_multiple_of(waits_after) { file.sync_all() } else { Ok(()) }
}

/// Goes to a place whose path is longer than any path may be.
fn deep() {
    let name = c(&"d".repeat(200));
    for _ in 0..60 {
        // SAFETY: the name outlives both calls.
        checked(unsafe {
            libc::mkdir(name.as_ptr(), 0o755);
            libc::chdir(name.as_ptr())
        })
        .unwrap();
    }
}
