//! Origins that speak SSH: whose key a host must have, and who signs for us.
//!
//! Flow: keys of hosts that the machine knows ([`known`]) -> an agent of OpenSSH's that holds our key ([`Holder`]) -> a socket
//! in the sandbox, on which it signs and does nothing else.
//!
//! Invariants: a host whose key is not known is told nothing, and nothing is learned on the way; our key is in no file, no
//! argument and no sandbox, and its holder ends with the daemon, however that ends.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use store::StoreError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use zeroize::Zeroizing;

use super::origin::Signed;

/// How long programs of OpenSSH's may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The holder forgets the key after so many seconds, whatever happens: longer than anything that uses it.
const FORGETS: &str = "7200";
/// How much is read of a file of known hosts.
const MOST_KNOWN: u64 = 4 << 20;
/// The longest message to the holder, and the most conversations with it at once.
const LONGEST: u32 = 256 << 10;
const MOST: usize = 8;

/// What may be asked of the holder: which keys there are, and to sign. With a name: which connection that is for.
const ASK_KEYS: u8 = 11;
const ASK_TO_SIGN: u8 = 13;
const EXTENDED: u8 = 27;
const BINDS: &[u8] = b"\0\0\0\x18session-bind@openssh.com";
/// The answer to everything else.
const NO: &[u8] = &[0, 0, 0, 1, 5];

fn unusable(why: impl Into<String>) -> StoreError {
    StoreError::Unusable(why.into())
}

fn not_started(program: &str) -> impl Fn(io::Error) -> StoreError {
    move |error| unusable(format!("`{program}` of OpenSSH could not be started: {error}"))
}

fn program(name: &str) -> Command {
    let mut program = Command::new(name);
    program.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C").kill_on_drop(true);
    program
}

/// What these files say of hosts and their keys; ssh knows how to read it.
pub(super) fn known(files: &[PathBuf]) -> String {
    let read = |file: &PathBuf| {
        let mut text = Vec::new();
        let open =
            std::fs::File::open(file).ok().filter(|open| open.metadata().is_ok_and(|is| is.is_file()))?;
        io::Read::read_to_end(&mut io::Read::take(open, MOST_KNOWN), &mut text).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    };
    files.iter().filter_map(read).map(|text| text + "\n").collect()
}

/// What is said of a host whose key nobody said, or has another.
pub(super) fn unknown(err: &str, way: &Signed, files: &[PathBuf]) -> Option<String> {
    let Signed { host, port, .. } = way;
    if err.contains("HOST IDENTIFICATION HAS CHANGED") {
        return Some(format!(
            "`{host}` has another key than the one that is known, and was told nothing; find out why before you replace it in \
             `known_hosts`"
        ));
    }
    err.contains("Host key verification failed").then(|| {
        let last = files.last().map(|file| format!("`{}`", file.display()));
        let last = last.unwrap_or_else(|| "a file that `git.known_hosts` names".into());
        format!(
            "nobody said which key `{host}` has, so it was told nothing; compare what `ssh-keyscan -p {port} {host}` says with what \
             the host publishes, and put that into {last}"
        )
    })
}

/// What git is told to reach a host with: nothing of the user's own is read, nothing is asked, nothing is learned.
pub(super) fn setting(hosts: &Path, socket: &Path) -> String {
    let options = [
        "BatchMode=yes".to_owned(),
        "StrictHostKeyChecking=yes".to_owned(),
        format!("UserKnownHostsFile={}", hosts.display()),
        "GlobalKnownHostsFile=/dev/null".to_owned(),
        "UpdateHostKeys=no".to_owned(),
        "PreferredAuthentications=publickey".to_owned(),
        format!("IdentityAgent={}", socket.display()),
        "ForwardAgent=no".to_owned(),
        "ConnectTimeout=30".to_owned(),
    ];
    let options: Vec<String> = options.iter().map(|option| format!("-o '{option}'")).collect();
    format!("core.sshCommand=ssh -F /dev/null {}", options.join(" "))
}

/// Who holds a key and signs with it, for as long as this is there.
#[derive(Debug)]
pub(super) struct Holder {
    /// It ends when this does; that ends when the daemon does, because its input does.
    _while_it_runs: Child,
    _conversations: JoinSet<()>,
    folder: PathBuf,
}

impl Holder {
    /// Gives a key to somebody who signs with it, in a directory that is made for it.
    pub(super) async fn of(key: &str, folder: PathBuf) -> Result<Self, StoreError> {
        super::private(&folder)?;
        let own = folder.join("own");
        let mut agent = program("ssh-agent");
        agent.arg("-t").arg(FORGETS).arg("-a").arg(&own).arg("cat");
        agent.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = agent.spawn().map_err(not_started("ssh-agent"))?;
        let mut this = Self { _while_it_runs: child, _conversations: JoinSet::new(), folder };
        let is_there = async {
            while UnixStream::connect(&own).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, is_there)
            .await
            .map_err(|_| unusable("`ssh-agent` of OpenSSH does not answer"))?;
        add(key, &own).await?;
        let failed = |error| unusable(format!("the daemon cannot make its socket: {error}"));
        let listener = UnixListener::bind(this.socket()).map_err(failed)?;
        // Only a sandbox that was given it comes past the directory; who is inside is another user.
        std::fs::set_permissions(this.socket(), std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
        this._conversations.spawn(listen(listener, own));
        Ok(this)
    }

    /// What is shown inside.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join("signs")
    }

    /// Whose keys are believed, as a file that is shown inside.
    pub(super) fn hosts(&self, known: &str) -> Result<PathBuf, StoreError> {
        let file = self.folder.join("hosts");
        std::fs::write(&file, known)
            .and_then(|()| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)))
            .map_err(|error| unusable(format!("the daemon cannot write which hosts it knows: {error}")))?;
        Ok(file)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, "where a key was signed with is still there");
        }
    }
}

/// Gives the key to its holder, through a pipe.
async fn add(key: &str, holder: &Path) -> Result<(), StoreError> {
    let mut add = program("ssh-add");
    // A key with a passphrase asks for it; nobody answers, also where there is a terminal.
    add.env("SSH_AUTH_SOCK", holder).env("SSH_ASKPASS_REQUIRE", "force").env("SSH_ASKPASS", "/bin/false");
    add.args(["-q", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = add.spawn().map_err(not_started("ssh-add"))?;
    let key = Zeroizing::new(format!("{}\n", key.trim_end()));
    if let Some(mut input) = child.stdin.take() {
        // What does not take it all says why.
        let _ = input.write_all(key.as_bytes()).await;
    }
    let done = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    match done {
        Ok(Ok(done)) if done.status.success() => Ok(()),
        _ => Err(unusable(
            "the secret is no private key that OpenSSH reads without a passphrase; keep one with `palisade secret add NAME --host \
             HOST:22 --replace < KEYFILE`",
        )),
    }
}

/// Lets those inside speak with the holder, a few at a time.
async fn listen(listener: UnixListener, holder: PathBuf) {
    let mut all = JoinSet::new();
    while let Ok((inside, _)) = listener.accept().await {
        while all.len() >= MOST {
            let _ = all.join_next().await;
        }
        let holder = holder.clone();
        all.spawn(async move {
            // Whoever broke it off knows.
            let _ = converse(inside, &holder).await;
        });
    }
}

async fn converse(mut inside: UnixStream, holder: &Path) -> io::Result<()> {
    let mut holder = UnixStream::connect(holder).await?;
    while let Some(message) = message(&mut inside).await? {
        if !is_asked(&message) {
            inside.write_all(NO).await?;
            continue;
        }
        put(&mut holder, &message).await?;
        let Some(answer) = self::message(&mut holder).await? else { return Ok(()) };
        put(&mut inside, &answer).await?;
    }
    Ok(())
}

/// Whether that may be asked by those inside.
fn is_asked(message: &[u8]) -> bool {
    match message {
        [ASK_KEYS] | [ASK_TO_SIGN, ..] => true,
        [EXTENDED, rest @ ..] => rest.starts_with(BINDS),
        _ => false,
    }
}

/// One message; none at the end.
async fn message(from: &mut UnixStream) -> io::Result<Option<Vec<u8>>> {
    let length = match from.read_u32().await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    };
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut all = vec![0; usize::try_from(length).unwrap_or_default()];
    from.read_exact(&mut all).await?;
    Ok(Some(all))
}

async fn put(to: &mut UnixStream, message: &[u8]) -> io::Result<()> {
    to.write_u32(u32::try_from(message.len()).unwrap_or(u32::MAX)).await?;
    to.write_all(message).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_inside_may_ask_for_keys_and_signatures_only() {
        assert!(is_asked(&[ASK_KEYS]) && is_asked(&[ASK_TO_SIGN, 1, 2]));
        assert!(is_asked(&[&[EXTENDED], BINDS, b"x"].concat()));
        // To add, to remove, to lock, to load a library, another extension, nothing.
        for kind in [0, 1, 9, 17, 18, 19, 20, 22, 23, 25, 26, EXTENDED] {
            assert!(!is_asked(&[kind]), "{kind}");
        }
        assert!(!is_asked(&[]) && !is_asked(&[ASK_KEYS, 0]));
    }

    #[tokio::test]
    async fn a_key_is_held_signed_with_and_gone() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("key");
        let made = program("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&file).status();
        assert!(made.await.unwrap().success());
        let key = std::fs::read_to_string(&file).unwrap();
        let holder = Holder::of(&key, place.path().join("held")).await.unwrap();
        let ask = |words: &'static [&'static str]| {
            let mut ask = program("ssh-add");
            ask.env("SSH_AUTH_SOCK", holder.socket()).args(words).arg(&file).output()
        };
        let public = file.with_extension("pub");
        let signs = program("ssh-add").env("SSH_AUTH_SOCK", holder.socket()).arg("-T").arg(&public).output();
        assert!(signs.await.unwrap().status.success(), "it signs");
        assert!(!ask(&["-d"]).await.unwrap().status.success(), "and is not taken away by those inside");
        assert!(!ask(&["-q"]).await.unwrap().status.success(), "nor given others");
        drop(holder);
        assert!(!place.path().join("held").exists());
        let refused = Holder::of("no key", place.path().join("held")).await.unwrap_err();
        assert!(refused.to_string().contains("no private key"), "{refused}");
        let locked = place.path().join("locked");
        let made =
            program("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "secret", "-f"]).arg(&locked).status();
        assert!(made.await.unwrap().success());
        let key = std::fs::read_to_string(&locked).unwrap();
        assert!(Holder::of(&key, place.path().join("held")).await.is_err());
    }
}
