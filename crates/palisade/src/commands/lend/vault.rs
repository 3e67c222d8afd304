//! Secrets from the vault of a daemon that runs as the same user.
//!
//! Flow: a line that this run listens on -> the daemon, which is told its name -> the value, on that line and in no answer ->
//! the line, which stays open as long as the run needs the value. Invariants: nobody but a process of the same user is heard on
//! a line; a line that ends, whoever ends it, ends what was lent on it. Nothing of this is ever on a disk.

use std::cell::OnceCell;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use api::{Client, LINE, LendSecretRequest, SecretAbout};
use sandbox::RunId;
use zeroize::{Zeroize, Zeroizing};

use super::Places;
use crate::commands::resolve;
use crate::failure::Failure;
use crate::session::Session;

/// The longest value that is lent.
const MOST: usize = 65_536;
/// How long the value may take after the daemon said that it was sent.
const PATIENCE: Duration = Duration::from_secs(2);
/// Strangers on a line before it is given up.
const STRANGERS: usize = 64;
/// The longest that the daemon lends for, in seconds.
const LONGEST: u32 = 86_400;

/// The daemon's vault, as the person who started this run may use it.
pub(in crate::commands) struct Vault<'a> {
    session: &'a Session,
    run: &'a RunId,
    /// The worktree in which secrets count, as it was typed.
    worktree: Option<&'a str>,
    /// How long the run may last, in seconds.
    seconds: Option<u32>,
    client: OnceCell<Client>,
    listed: OnceCell<Vec<SecretAbout>>,
}

/// What was lent, and the line that it was lent on.
pub(super) struct Borrowed {
    pub(super) value: Zeroizing<String>,
    pub(super) line: UnixStream,
}

impl<'a> Vault<'a> {
    pub(in crate::commands) fn new(
        session: &'a Session,
        run: &'a RunId,
        worktree: Option<&'a str>,
        wall: Option<Duration>,
    ) -> Self {
        let seconds = wall.map(|wall| u32::try_from(wall.as_secs()).unwrap_or(LONGEST).clamp(1, LONGEST));
        Self { session, run, worktree, seconds, client: OnceCell::new(), listed: OnceCell::new() }
    }

    fn client(&self) -> Result<&Client, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = self.session.client()?;
        Ok(self.client.get_or_init(|| client))
    }

    fn worktree(&self) -> Result<Option<String>, Failure> {
        let client = self.client()?;
        self.worktree.map(|text| resolve::worktree(client, text)).transpose()
    }

    /// What counts for the caller, of this name. Values are told by nothing.
    fn about(&self, name: &str) -> Result<Option<&SecretAbout>, Failure> {
        let listed = match self.listed.get() {
            Some(listed) => listed,
            None => {
                let all = self.client()?.secrets(None, self.worktree()?.as_deref())?.items;
                self.listed.get_or_init(|| all)
            }
        };
        Ok(listed.iter().find(|one| one.name == name && one.effective != Some(false)))
    }

    /// Whether it has this one for some of these hosts, for which nobody asked. Without a daemon there is none.
    pub(super) fn offers(&self, name: &str, hosts: Places) -> Result<Option<Places>, Failure> {
        let about = match self.about(name) {
            Ok(about) => about.filter(|about| !about.expired),
            Err(Failure::SignedOut) => None,
            Err(failure @ Failure::Client(api::ClientError::Unreachable { .. })) => {
                crate::output::tell(&format!("nothing is lent from the vault: {failure}"));
                // It is not asked again for the next one.
                self.listed.get_or_init(Vec::new);
                None
            }
            Err(failure) => return Err(failed(name, failure)),
        };
        let Some(about) = about else { return Ok(None) };
        let places = narrowed(&about.hosts, hosts);
        Ok(Some(places).filter(|places| !places.is_empty()))
    }

    /// Where one is to go that was asked for: where it was said, or else where the vault says, which also narrows what is
    /// known of agents.
    pub(super) fn places(&self, name: &str, said: Option<Places>, is_typed: bool) -> Result<Places, Failure> {
        match said {
            Some(places) if is_typed => Ok(places),
            said => {
                let about = self.about(name).map_err(|failure| failed(name, failure))?;
                // Some may use what they may not list; the daemon says.
                let bound = about.map(|about| about.hosts.as_slice()).unwrap_or_default();
                let places = match said {
                    Some(said) => narrowed(bound, said),
                    None => bound.iter().filter_map(|host| exact(host)).collect(),
                };
                if !places.is_empty() {
                    return Ok(places);
                }
                let why = match (about, bound) {
                    (None, _) => format!(
                        "the vault has no such secret of yours; try `palisade secret add {name} --host HOST`"
                    ),
                    (Some(_), []) => super::NOWHERE.to_owned(),
                    (Some(_), bound) => format!(
                        "the vault binds it to {}; name one of these hosts, as `NAME=HOST[:PORT]`",
                        bound.join(", ")
                    ),
                };
                Err(super::wrong(name, &why))
            }
        }
    }

    /// Borrows a secret for these hosts.
    pub(super) fn borrow(&self, name: &str, places: &Places) -> Result<Borrowed, Failure> {
        let lent = || {
            let client = self.client()?;
            let line = Listening::new().map_err(|error| Failure::Program(error.to_string()))?;
            client.lend_secret(&LendSecretRequest {
                name: name.to_owned(),
                worktree: self.worktree()?,
                hosts: places.iter().map(|(host, port)| format!("{host}:{port}")).collect(),
                run: self.run.to_string(),
                line: line.name.clone(),
                seconds: self.seconds,
            })?;
            line.taken().map_err(|error| {
                Failure::Program(format!("what the daemon lent did not arrive whole, or is no text: {error}"))
            })
        };
        lent().map_err(|failure: Failure| failed(name, failure))
    }
}

/// Why the vault does not give it.
fn failed(name: &str, failure: Failure) -> Failure {
    let why = match &failure {
        Failure::Client(error) if error.status() == Some(404) => {
            format!("the vault has no such secret of yours; try `palisade secret add {name} --host HOST`")
        }
        Failure::Client(error) if error.status() == Some(403) => {
            format!("the daemon does not let you use it: {error}")
        }
        Failure::SignedOut => {
            "you are not signed in to a daemon, which could have it in its vault; run `palisade login`".into()
        }
        other => other.to_string(),
    };
    Failure::Vault(format!("cannot lend `{name}`, because {why}"), Box::new(failure))
}

/// The same for one that was looked for in the environment before.
pub(super) fn not_here_either(name: &str, failure: Failure) -> Failure {
    let begins = format!("cannot lend `{name}`, because ");
    let longer = |text: &str| {
        let why = text.strip_prefix(&begins).unwrap_or(text);
        format!("{begins}it is not set here, and {why}")
    };
    match failure {
        Failure::Vault(text, from) => Failure::Vault(longer(&text), from),
        other => Failure::Sandbox(longer(&other.to_string()), 125),
    }
}

/// Of these hosts, those that patterns of the vault allow. No patterns allow all.
fn narrowed(bound: &[String], hosts: Places) -> Places {
    let may = |(host, port): &(String, u16)| {
        bound.is_empty() || bound.iter().any(|pattern| covers(pattern, host, *port))
    };
    hosts.into_iter().filter(may).collect()
}

/// A host and a port, as the vault writes them.
fn parts(pattern: &str) -> (&str, Option<u16>) {
    match pattern.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
        Some((host, Ok(port))) => (host, Some(port)),
        Some((_, Err(_))) | None => (pattern, None),
    }
}

/// The daemon judges this again, and refuses what it did not mean.
fn covers(pattern: &str, host: &str, port: u16) -> bool {
    let (name, at) = parts(pattern);
    let left = |base: &str| host.strip_suffix(base).and_then(|left| left.strip_suffix('.'));
    let is_named = match (name, name.strip_prefix("**."), name.strip_prefix("*.")) {
        ("**", ..) => true,
        (_, Some(base), _) => left(base).is_some(),
        (_, None, Some(base)) => left(base).is_some_and(|left| !left.contains('.')),
        (name, None, None) => name == host,
    };
    is_named && at.is_none_or(|at| at == port)
}

fn exact(pattern: &str) -> Option<(String, u16)> {
    let (name, port) = parts(pattern);
    (!name.contains('*')).then(|| (name.to_owned(), port.unwrap_or(443)))
}

/// A line that waits for the daemon.
struct Listening {
    listener: UnixListener,
    name: String,
}

impl Listening {
    /// One that nobody can guess, without a file.
    fn new() -> io::Result<Self> {
        let mut bytes = [0u8; 16];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let name = hex::encode(bytes);
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(format!("{LINE}{name}"))?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, name })
    }

    /// What the daemon has sent already.
    fn taken(self) -> io::Result<Borrowed> {
        for _ in 0..STRANGERS {
            let (mut line, _) = self.listener.accept()?;
            let peer = rustix::net::sockopt::socket_peercred(&line)?;
            if peer.uid != rustix::process::geteuid() {
                continue;
            }
            line.set_nonblocking(false)?;
            line.set_read_timeout(Some(PATIENCE))?;
            let value = value(&mut line)?;
            line.set_nonblocking(true)?;
            return Ok(Borrowed { value, line });
        }
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// One value: how long it is, in four bytes, and what it is.
pub(super) fn value(line: &mut impl Read) -> io::Result<Zeroizing<String>> {
    let mut length = [0; 4];
    line.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Zeroizing::new(vec![0; length]);
    line.read_exact(&mut bytes)?;
    String::from_utf8(std::mem::take(&mut *bytes)).map(Zeroizing::new).map_err(|error| {
        error.into_bytes().zeroize();
        io::ErrorKind::InvalidData.into()
    })
}

/// What the daemon lends for as long as its lines are open.
#[derive(Debug, Default)]
pub(in crate::commands) struct Lines(Vec<(String, UnixStream)>);

impl Lines {
    pub(super) fn hold(&mut self, name: &str, line: UnixStream) {
        self.0.push((name.to_owned(), line));
    }

    pub(in crate::commands) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|(_, line)| line.as_fd())
    }

    /// The names of secrets whose line was ended; they are held no longer.
    pub(in crate::commands) fn ended(&mut self) -> Vec<String> {
        // Nothing is ever said on them.
        let is_open = |line: &mut UnixStream| matches!(line.read(&mut [0]), Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted));
        self.0.extract_if(.., |(_, line)| !is_open(line)).map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_06_what_the_vault_binds_narrows_where_a_secret_goes() {
        for (pattern, host, port, expected) in [
            ("api.test", "api.test", 443, true),
            ("api.test", "api.test", 8443, true),
            ("api.test:443", "api.test", 8443, false),
            ("api.test", "xapi.test", 443, false),
            ("*.test", "api.test", 443, true),
            ("*.test", "a.api.test", 443, false),
            ("*.test", "test", 443, false),
            ("**.test", "a.api.test", 443, true),
            ("**.test", "atest", 443, false),
            ("**", "anything", 1, true),
        ] {
            assert_eq!(covers(pattern, host, port), expected, "{pattern} {host}:{port}");
        }
        assert_eq!(exact("api.test:8443"), Some(("api.test".into(), 8443)));
        assert_eq!(exact("api.test"), Some(("api.test".into(), 443)));
        assert_eq!(exact("*.test"), None);
    }

    #[test]
    fn sec_06_a_line_gives_a_whole_value_or_none() {
        let framed = |length: u32, bytes: &[u8]| [length.to_be_bytes().as_slice(), bytes].concat();
        assert_eq!(*value(&mut framed(5, b"value").as_slice()).unwrap(), "value");
        for bad in
            [framed(6, b"value"), framed(65_537, &[b'x'; 65_537]), framed(2, b"\xff\xfe"), b"abc".to_vec()]
        {
            assert!(value(&mut bad.as_slice()).is_err());
        }
    }

    #[test]
    fn sec_06_a_line_that_ends_is_told_once() {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut lines = Lines::default();
        lines.hold("KEY", near);
        assert!(lines.ended().is_empty());
        drop(far);
        assert_eq!((lines.ended(), lines.ended()), (vec!["KEY".to_owned()], Vec::new()));
    }
}
