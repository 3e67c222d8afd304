//! `palisade session attach` on a terminal of its own: what is shown, what a key decides, what letting go leaves.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tests::{Host, Person};

use crate::calls::new_session;
use crate::sessions::{ended, quiet, tasks, until};

/// A person in front of a terminal.
struct Watcher {
    near: std::fs::File,
    far: OwnedFd,
    child: Child,
    seen: String,
}

impl Watcher {
    fn attaches(host: &Host, who: &Person, session: &str) -> Self {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let far = ioctl_tiocgptpeer(&near, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        rustix::io::ioctl_fionbio(&near, true).unwrap();
        let copy = || Stdio::from(far.try_clone().unwrap());
        let mut command = host.command("palisade");
        command.args(["--url", host.base(), "session", "attach", session, "--after", "0"]);
        command.env("PALISADE_API_KEY", who.client.token().unwrap());
        let child = command.stdin(copy()).stdout(copy()).stderr(copy()).spawn().unwrap();
        let watcher = Self { near: std::fs::File::from(near), far, child, seen: String::new() };
        watcher.is_wide(100);
        watcher
    }

    fn is_wide(&self, columns: u16) {
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.far, size).unwrap();
    }

    fn reads(&mut self) {
        let mut bytes = [0; 4096];
        match self.near.read(&mut bytes) {
            Ok(got) => self.seen.push_str(&String::from_utf8_lossy(&bytes[..got])),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }

    /// Waits until this is shown, and forgets everything up to there.
    #[track_caller]
    fn sees(&mut self, text: &str) -> String {
        let until = Instant::now() + Duration::from_secs(40);
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            assert!(Instant::now() < until, "`{text}` is not in {:?}", self.seen);
            self.reads();
        }
    }

    fn strikes(&mut self, keys: &[u8]) {
        self.near.write_all(keys).unwrap();
    }

    fn echoes(&self) -> bool {
        tcgetattr(&self.far)
            .unwrap()
            .local_modes
            .contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// ACC-12, ACC-14: a key decides what is on the screen, and only that; a key that was struck before decides nothing.
#[test]
fn acc_12_a_key_decides_what_is_on_the_screen() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let mut watcher = Watcher::attaches(&host, owner, &session);
    until("keys come one by one", || (!watcher.echoes()).then_some(()));
    for (name, key, done) in [("first", b"y", true), ("second", b"n", false)] {
        watcher.strikes(b"yyy\n");
        let task = owner.client.prompt_session(&session, &format!("ask {name}")).unwrap();
        watcher.sees(&format!("> ask {name}"));
        watcher.sees(&format!("Write {name}"));
        watcher.sees("new file");
        watcher.sees("+ asked");
        watcher.sees("[y/n]");
        // Longer than a key that was on its way would take.
        std::thread::sleep(Duration::from_millis(600));
        assert_eq!(owner.client.approvals(&session, false).unwrap().items.len(), 1, "{name}: it waits");
        watcher.strikes(key);
        watcher.sees(if done { "allowed" } else { "denied" });
        watcher.sees(if done { "✓ Write first" } else { "✗ Write second" });
        watcher.sees("[done]");
        assert_eq!(ended(owner, &session, &task.id).state, "done");
        assert_eq!(owner.client.worktree_files(&worktree, name).is_ok(), done, "{name}");
    }
}

/// What is said is rendered and does nothing to the terminal; Ctrl-C lets go of the session and leaves it at work.
#[test]
fn ses_03_what_is_said_is_rendered_and_letting_go_changes_nothing() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let mut watcher = Watcher::attaches(&host, owner, &session);
    until("keys come one by one", || (!watcher.echoes()).then_some(()));
    let said = "say # Top\n- one **bold** `code`\n```\nlet **a**\n```\n\u{202e}turned\u{202c} \u{1b}]0;title\u{7} \u{1b}[31mred\u{1b}[0m \u{1b}[2J end";
    owner.client.prompt_session(&session, said).unwrap();
    watcher.sees("> say");
    let shown = watcher.sees("[done]");
    for piece in ["Top\u{1b}[0m", "• one", "\u{1b}[1mbold", "\u{1b}[36mcode", "\u{1b}[36mlet **a**"] {
        assert!(shown.contains(piece), "{piece:?} is not in {shown:?}");
    }
    for bad in ["\u{202e}", "\u{1b}]", "\u{7}", "\u{1b}[2J", "\u{1b}[31m"] {
        assert!(!shown.contains(bad), "{bad:?} is in {shown:?}");
    }
    let task = owner.client.prompt_session(&session, "stall a moment\n").unwrap();
    watcher.sees("Ctrl-C detaches");
    watcher.is_wide(20);
    watcher.sees("\r\u{1b}[K");
    std::thread::sleep(Duration::from_millis(1_200));
    watcher.sees("\r\u{1b}[K");
    let line = watcher.sees("\r\u{1b}[K");
    let line = line.trim_end_matches("\r\u{1b}[K");
    assert!(line.chars().count() < 20, "it fits: {line:?}");
    watcher.strikes(b"\x03");
    watcher.sees("detached");
    watcher.sees("palisade session stop");
    assert!(watcher.child.wait().unwrap().success());
    assert!(watcher.echoes(), "the terminal is as it was");
    assert_eq!(tasks(owner, &session).last().unwrap().state, "running");
    owner.client.stop_session(&session).unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "stopped");

    // Where nobody looks at a terminal it is plain, and what was written.
    owner.client.close_session(&session).unwrap();
    let mut command = host.command("palisade");
    command.args(["--url", host.base(), "session", "attach", &session, "--after", "0"]);
    let out = command.env("PALISADE_API_KEY", owner.client.token().unwrap()).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("# Top\n- one **bold** `code`\n```\nlet **a**\n```\n"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}') && !text.contains("Ctrl-C"), "{text:?}");
}
