//! A person's terminal, made by the test.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use crate::kit::{LONGEST, Output, ends_within};

/// Both ends of a terminal.
pub(crate) struct Terminal {
    near: OwnedFd,
    far: OwnedFd,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let far =
            ioctl_tiocgptpeer(&near, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        let terminal = Self { near, far };
        terminal.resize(80, 24);
        terminal
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.near, size).unwrap();
    }

    /// What is typed does not show.
    pub(crate) fn silence(&self) {
        let mut silent = tcgetattr(&self.far).unwrap();
        silent.local_modes.remove(rustix::termios::LocalModes::ECHO);
        rustix::termios::tcsetattr(&self.far, rustix::termios::OptionalActions::Now, &silent).unwrap();
    }

    /// How it is set, as one text.
    pub(crate) fn settings(&self) -> String {
        let found = tcgetattr(&self.far).unwrap();
        format!(
            "{:?} {:?} {:?} {:?}",
            found.input_modes, found.output_modes, found.control_modes, found.local_modes
        )
    }

    /// How many bytes wait in its input for whoever reads next.
    pub(crate) fn waiting(&self) -> u64 {
        // A line that is not complete does not count, so lines are taken as they come.
        let mut raw = tcgetattr(&self.far).unwrap();
        let before = raw.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(&self.far, rustix::termios::OptionalActions::Now, &raw).unwrap();
        let count = rustix::io::ioctl_fionread(&self.far).unwrap();
        rustix::termios::tcsetattr(&self.far, rustix::termios::OptionalActions::Now, &before).unwrap();
        count
    }

    /// Starts a command on it, as a shell would.
    pub(crate) fn start(&self, mut command: Command) -> Child {
        let far = || Stdio::from(self.far.as_fd().try_clone_to_owned().unwrap());
        command.stdin(far()).stdout(far()).stderr(far());
        // SAFETY: two system calls and nothing else between fork and exec.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        command.spawn().unwrap()
    }

    /// What is typed at it.
    pub(crate) fn type_in(&self, text: &str) {
        std::fs::File::from(self.near.as_fd().try_clone_to_owned().unwrap())
            .write_all(text.as_bytes())
            .unwrap();
    }

    /// What it shows, piece by piece.
    pub(crate) fn shown(&self) -> Receiver<String> {
        let (gives, takes) = channel();
        let mut near = std::fs::File::from(self.near.as_fd().try_clone_to_owned().unwrap());
        std::thread::spawn(move || {
            let mut bytes = [0u8; 4096];
            while let Ok(count @ 1..) = near.read(&mut bytes) {
                if gives.send(String::from_utf8_lossy(&bytes[..count]).into_owned()).is_err() {
                    break;
                }
            }
        });
        takes
    }

    /// Runs a command on it to the end.
    pub(crate) fn run(&self, command: Command) -> Output {
        let shown = self.shown();
        let mut child = self.start(command);
        assert!(ends_within(child.id(), LONGEST), "not ended");
        let code = child.wait().unwrap().code().unwrap_or(-1);
        // What was shown before the end is there already; the mark comes after it.
        let mut far = std::fs::File::from(self.far.as_fd().try_clone_to_owned().unwrap());
        far.write_all(b"\n=end=\n").unwrap();
        let stdout = until(&shown, "=end=");
        Output { code, stdout: stdout.replace('\r', ""), stderr: String::new() }
    }
}

/// All that is shown until a text is.
pub(crate) fn until(shown: &Receiver<String>, text: &str) -> String {
    let mut all = String::new();
    while !all.contains(text) {
        match shown.recv_timeout(LONGEST) {
            Ok(more) => all.push_str(&more),
            Err(_) => panic!("`{text}` was not shown, but: {all}"),
        }
    }
    all
}
