//! The line between the launcher and the proxy: one packet, one message.
//!
//! Flow: the launcher says who may reach what, which address stands for which name and where connections come in; the
//! proxy says what it decided. Invariants: the proxy takes orders from this line only; both ends refuse what they do not
//! know; an end of the line is the end of the proxy.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rules::{Limits, Rule};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use zeroize::{Zeroize, Zeroizing};

use crate::login::Login;
use crate::names::Named;

/// The most bytes of one packet.
const MOST_BYTES: usize = 128 * 1024;
/// The most descriptors in one packet.
pub(crate) const MOST_DESCRIPTORS: usize = 64;

/// What the launcher says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order<L = Loan> {
    /// Once, first: who the proxy is to become if it is root.
    Begin {
        /// User and group, for a proxy that is started by root.
        user: Option<(u32, u32)>,
    },
    /// Sign for the hosts that are looked into: as before, if a memory file comes along, else with a new key.
    Authority,
    /// A secret that is put in where the sandbox sends the word that stands for it.
    Lend(L),
    /// A login whose token is among what is lent, and is renewed outside. Holds with the next set of rules.
    Login(Login),
    /// A token could not be renewed.
    NotRenewed {
        /// The login.
        name: String,
        /// Which of its tokens.
        turn: u64,
        /// In words for a person, and what to do about it.
        why: String,
        /// Whether asking again is of no use before somebody does something.
        is_final: bool,
    },
    /// A part of the next set of rules.
    Part(Vec<Rule>),
    /// The set of rules is complete, and holds from now on.
    Rules {
        /// Which set, counted from one.
        generation: u64,
    },
    /// Addresses stand for names.
    Names(Vec<Named>),
    /// Connections come to the listeners that come along.
    Listen,
    /// There is a person to ask: what no rule knows is held, and told.
    Ask,
    /// A person said no to a destination; without one, to all that no rule knows.
    Refuse(Option<(String, u16)>),
    /// How much the sandbox may do, and what it has done already. Before it listens.
    Limit {
        /// How much.
        limits: Limits,
        /// What it has done under earlier proxies.
        used: Used,
    },
    /// The sockets that come along were made inside: they connect to what listens there.
    WaysIn,
    /// What comes to the listeners that come along goes to this port inside.
    Publish {
        /// The port.
        port: u16,
    },
    /// Nothing goes inside any more.
    Unpublish,
}

/// What was done with a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Connections that were taken.
    pub connections: u64,
    /// Of these, those that are open.
    pub open: u64,
    /// Requests that may go.
    pub requests: u64,
    /// Bytes that were sent out.
    pub sent: u64,
    /// Bytes that came back.
    pub received: u64,
    /// Connections and requests that were refused because there had been too much.
    pub over: u64,
}

/// A value that is told to nobody but the proxy.
#[derive(Default)]
pub struct Value(Zeroizing<String>);

impl Value {
    /// Takes it.
    #[must_use]
    pub fn new(value: String) -> Self {
        Self(Zeroizing::new(value))
    }

    /// The value, to be sent to whom it is bound.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// A secret that is lent to a sandbox, which only gets a word that stands for it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Loan {
    /// What the secret is called.
    pub name: String,
    /// What stands for it.
    pub word: String,
    /// The secret.
    pub value: Value,
    /// Where it may go, and nowhere else: hosts and ports.
    pub hosts: Vec<(String, u16)>,
    /// Hosts and ports where it may go with requests for some paths only.
    #[serde(default)]
    pub paths: Vec<Rule>,
    /// It stands for nothing, and is there to be seen when somebody takes it.
    #[serde(default)]
    pub is_decoy: bool,
    /// It was taken back: it goes nowhere any more, and is known only so that no answer brings it in.
    #[serde(default)]
    pub is_over: bool,
    /// It signs requests of AWS clients, which the sandbox signed with the word.
    #[serde(default)]
    pub signs: bool,
    /// Whether it may stand in content too. Not where a model reads that: it can be talked into telling it again, in a
    /// writing that nobody masks.
    pub in_content: bool,
}

/// What a connection or a request wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The name that was asked for, or the address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The method, if a request was read.
    pub method: Option<String>,
    /// The path without its query, if a request was read.
    pub path: Option<String>,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It went on.
    Allowed {
        /// The rule that allows it.
        rule: String,
        /// Whether what goes over it is seen.
        inspected: bool,
    },
    /// It did not, and why.
    Refused {
        /// In words for a person, and what to ask for.
        why: String,
    },
}

/// What the proxy says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// Who signs from now on; with a memory file for the next proxy of the same sandbox.
    Authority {
        /// The certificate (PEM) that the sandbox is to trust.
        certificate: String,
    },
    /// These rules hold.
    Holds {
        /// Which set.
        generation: u64,
    },
    /// A set of rules cannot be used; the one before it stays.
    Unusable {
        /// Which set.
        generation: u64,
        /// Why.
        why: String,
    },
    /// A connection came. It is told before anything else of it, so that who asked can be looked for while they are there.
    Came {
        /// Where from, inside.
        from: SocketAddr,
        /// Where it was going.
        to: SocketAddr,
    },
    /// A connection or a request was one too many; told once for each limit.
    TooMuch {
        /// What it wanted.
        wanted: Wanted,
        /// Which limit.
        limit: String,
        /// The same in words for a person, and what to ask for.
        why: String,
        /// Where it came from, inside.
        from: Option<SocketAddr>,
    },
    /// A connection or a request was judged.
    Judged {
        /// What it wanted.
        wanted: Wanted,
        /// What was decided.
        verdict: Verdict,
        /// The address that was dialled.
        address: Option<SocketAddr>,
        /// Where it came from, inside.
        from: Option<SocketAddr>,
    },
    /// What was done so far.
    Used(Used),
    /// Somebody on this machine was connected to a port inside, and that is over.
    Entered {
        /// The port.
        port: u16,
        /// Bytes that went inside.
        entered: u64,
        /// Bytes that came out.
        left: u64,
    },
    /// A destination that no rule knows is held until a person says something about it.
    Asks {
        /// The name that was asked for.
        host: String,
        /// The port.
        port: u16,
    },
    /// Nobody waits for the answer about a destination any more.
    Unasked {
        /// The name that was asked for.
        host: String,
        /// The port.
        port: u16,
    },
    /// The token of a login is about to end, or was refused: another one is waited for.
    Stale {
        /// The login.
        name: String,
        /// Which of its tokens.
        turn: u64,
    },
    /// Something that must not happen: people are told.
    Finding {
        /// What it wanted.
        wanted: Wanted,
        /// What it is.
        what: String,
    },
    /// A decoy was on its way out: the sandbox is to stand still.
    Stolen {
        /// What it wanted.
        wanted: Wanted,
        /// Which decoy.
        name: String,
    },
    /// What was allowed is over.
    Over {
        /// What it wanted.
        wanted: Wanted,
        /// Bytes that were sent out, and that came back.
        sent: u64,
        /// Bytes that came back.
        received: u64,
        /// How long it took.
        milliseconds: u64,
        /// What a server answered, if a request was read and it did.
        status: Option<u16>,
        /// What went wrong, if something did.
        trouble: Option<String>,
    },
    /// Several at once, in the order in which they were decided.
    Several(Vec<Report>),
    /// There is nothing more to say.
    Last,
    /// It cannot go on.
    Broken {
        /// Why.
        why: String,
    },
}

/// One end.
#[derive(Debug)]
pub struct Line {
    socket: OwnedFd,
    /// Where packets are read to: wiped after each.
    buffer: Mutex<Vec<u8>>,
}

impl Line {
    /// Both ends.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (near, far) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self::of(near), Self::of(far)))
    }

    /// The end that was given to this process.
    #[must_use]
    pub fn of(fd: OwnedFd) -> Self {
        Self { socket: fd, buffer: Mutex::new(Vec::new()) }
    }

    /// The descriptor, for whoever starts the other side.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.socket
    }

    /// Says something.
    ///
    /// # Errors
    /// When nobody is there any more, or it is too long. With `waits` false also when the other side does not listen.
    pub fn say<T: Serialize>(&self, what: &T, with: &[BorrowedFd<'_>], waits: bool) -> io::Result<()> {
        // A secret may be in it.
        let bytes = Zeroizing::new(serde_json::to_vec(what)?);
        if bytes.len() > MOST_BYTES || with.len() > MOST_DESCRIPTORS {
            return Err(rustix::io::Errno::MSGSIZE.into());
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut passed = SendAncillaryBuffer::new(&mut space);
        if !with.is_empty() && !passed.push(SendAncillaryMessage::ScmRights(with)) {
            return Err(rustix::io::Errno::NOBUFS.into());
        }
        let flags = if waits { SendFlags::NOSIGNAL } else { SendFlags::NOSIGNAL | SendFlags::DONTWAIT };
        loop {
            match rustix::net::sendmsg(&self.socket, &[io::IoSlice::new(&bytes)], &mut passed, flags) {
                Err(rustix::io::Errno::INTR) => {}
                other => return Ok(other.map(drop)?),
            }
        }
    }

    /// Hears the next thing; none when the other side is gone.
    ///
    /// # Errors
    /// When what came is not understood. With `waits` false also when nothing came ([`io::ErrorKind::WouldBlock`]).
    pub fn hear<T: DeserializeOwned>(&self, waits: bool) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let mut bytes = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.resize(MOST_BYTES, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut with = RecvAncillaryBuffer::new(&mut space);
        let flags =
            if waits { RecvFlags::CMSG_CLOEXEC } else { RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT };
        let got = loop {
            let mut parts = [io::IoSliceMut::new(&mut bytes)];
            match rustix::net::recvmsg(&self.socket, &mut parts, &mut with, flags) {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::CONNRESET) => return Ok(None),
                other => break other?.bytes,
            }
        };
        let mut passed = Vec::new();
        for message in with.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                passed.extend(fds);
            }
        }
        let text = bytes.get_mut(..got).unwrap_or_default();
        let heard = if text.is_empty() { Ok(None) } else { serde_json::from_slice(text).map(Some) };
        // A secret may have been in it.
        text.zeroize();
        Ok(heard?.map(|heard| (heard, passed)))
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_descriptors_cross_and_an_end_is_an_end() {
        let (near, far) = Line::pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        near.say(&Order::<Loan>::Begin { user: Some((1, 2)) }, &[file.as_fd(), file.as_fd()], true).unwrap();
        let (order, fds) = far.hear::<Order>(true).unwrap().unwrap();
        assert!(matches!(order, Order::Begin { user: Some((1, 2)) }));
        assert_eq!(fds.len(), 2);
        assert_eq!(far.hear::<Order>(false).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        far.say(&Report::Last, &[], false).unwrap();
        // What is not of this protocol is refused, not guessed.
        assert!(near.hear::<Order>(true).is_err());
        drop(far);
        assert!(near.hear::<Report>(true).unwrap().is_none());
        assert!(near.say(&Order::<Loan>::Rules { generation: 1 }, &[], true).is_err());
    }
}
