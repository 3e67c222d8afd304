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
/// The longest directory to sign in: the kernel bounds the names of sockets. And how much of it is below the data directory.
const LONGEST_PLACE: usize = 96;
const OWN_PART: usize = "/runs/s-00000000".len();
/// The longest file of known hosts.
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

/// What these files say of hosts and their keys; ssh knows how to read it. One that cannot be read whole says nothing for sure:
/// a key that was taken back may stand in the rest.
fn known(files: &[PathBuf]) -> Result<String, StoreError> {
    let mut all = String::new();
    for file in files {
        let unread =
            |why: String| unusable(format!("`{}`, which says which keys hosts have: {why}", file.display()));
        match std::fs::metadata(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(unread(error.to_string())),
            Ok(is) if !is.is_file() => return Err(unread("it is no file".into())),
            Ok(is) if is.len() > MOST_KNOWN => return Err(unread("it is too long".into())),
            Ok(_) => {}
        }
        let text = std::fs::read(file).map_err(|error| unread(error.to_string()))?;
        all.push_str(&String::from_utf8_lossy(&text));
        all.push('\n');
    }
    Ok(all)
}

/// Why a host was not spoken to, or does not want to hear from us; none if it is something else.
pub(super) fn refused(err: &str, way: &Signed, files: &[PathBuf]) -> Option<StoreError> {
    let Signed { host, login, .. } = way;
    let line = |begins: &str| err.lines().any(|line| line.trim_start().starts_with(begins));
    if err.contains("REVOKED HOST KEY") {
        return Some(unusable(format!(
            "the key that `{host}` has was taken back, by what is known of it; it was told nothing"
        )));
    }
    if err.contains("HOST IDENTIFICATION HAS CHANGED") {
        return Some(unusable(format!(
            "`{host}` has another key than the one that is known, and was told nothing; find out why before you replace it in \
             `known_hosts`"
        )));
    }
    if line("Host key verification failed") {
        return Some(nobody_said(way, files));
    }
    line(&format!("{login}@{host}: Permission denied (")).then(|| {
        unusable(
            "the origin does not take the key that it got; give it the public half, or keep another with `palisade secret add NAME \
             --host HOST:22 --replace < KEYFILE`",
        )
    })
}

fn nobody_said(way: &Signed, files: &[PathBuf]) -> StoreError {
    let Signed { host, port, .. } = way;
    let last = files.last().map(|file| format!("`{}`", file.display()));
    let last = last.unwrap_or_else(|| "a file that `git.known_hosts` names".into());
    unusable(format!(
        "nobody said which key `{host}` has, so it was told nothing; compare what `ssh-keyscan -p {port} {host}` says with what the \
         host publishes, and put that into {last}"
    ))
}

/// Who holds a key and signs with it, for as long as this is there.
#[derive(Debug)]
pub(super) struct Holder {
    /// It ends when this does; that ends when the daemon does, because its input does.
    child: Option<Child>,
    conversations: JoinSet<()>,
    folder: PathBuf,
}

impl Holder {
    /// Gives a key to somebody who signs with it for this host, in a directory that is made for it.
    pub(super) async fn of(way: &Signed, files: &[PathBuf], folder: PathBuf) -> Result<Self, StoreError> {
        // ssh reads more into other characters, in several ways at once.
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._+-".contains(&b);
        if !folder.as_os_str().as_encoded_bytes().iter().all(|b| plain(*b))
            || folder.as_os_str().len() > LONGEST_PLACE
        {
            return Err(unusable(format!(
                "origins over ssh need a data directory of letters, digits and `._+-` that is not longer than {} characters",
                LONGEST_PLACE.saturating_sub(OWN_PART)
            )));
        }
        let known = known(files)?;
        super::private(&folder)?;
        let mut this = Self { child: None, conversations: JoinSet::new(), folder };
        let failed = |error| unusable(format!("the daemon cannot write where it signs: {error}"));
        std::fs::write(this.hosts(), known)
            .and_then(|()| std::fs::set_permissions(this.hosts(), std::fs::Permissions::from_mode(0o644)))
            .map_err(failed)?;
        let own = this.folder.join("own");
        let mut agent = program("ssh-agent");
        agent.arg("-t").arg(FORGETS).arg("-a").arg(&own).arg("cat");
        agent.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = this.child.insert(agent.spawn().map_err(not_started("ssh-agent"))?);
        let is_there = async {
            while UnixStream::connect(&own).await.is_err() {
                if let Ok(Some(ended)) = child.try_wait() {
                    return Err(unusable(format!("`ssh-agent` of OpenSSH does not start: {ended}")));
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        };
        let late = |_| unusable("`ssh-agent` of OpenSSH does not answer");
        tokio::time::timeout(PATIENCE, is_there).await.map_err(late)??;
        let added = tokio::time::timeout(PATIENCE, this.add(way, &own)).await;
        let said = added.map_err(|_| unusable("`ssh-add` of OpenSSH does not end"))??;
        if said.contains("No host keys found") || said.contains("not found in") {
            return Err(nobody_said(way, files));
        }
        if !said.is_empty() {
            return Err(unusable(
                "the secret is no private key that OpenSSH (8.9 or newer) reads without a passphrase; keep one with `palisade secret \
                 add NAME --host HOST:22 --replace < KEYFILE`",
            ));
        }
        let listener = UnixListener::bind(this.socket()).map_err(failed)?;
        // Only a sandbox that was given it comes past the directory; who is inside is another user.
        std::fs::set_permissions(this.socket(), std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
        this.conversations.spawn(listen(listener, own));
        Ok(this)
    }

    /// What is shown inside: where it signs.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join("signs")
    }

    /// And whose keys are believed.
    pub(super) fn hosts(&self) -> PathBuf {
        self.folder.join("hosts")
    }

    /// What git is told to reach the host with: nothing of the user's own is read, nothing is asked, nothing is learned.
    pub(super) fn setting(&self) -> String {
        let options = [
            "BatchMode=yes".to_owned(),
            "StrictHostKeyChecking=yes".to_owned(),
            format!("UserKnownHostsFile={}", self.hosts().display()),
            "GlobalKnownHostsFile=/dev/null".to_owned(),
            "UpdateHostKeys=no".to_owned(),
            "PreferredAuthentications=publickey".to_owned(),
            "IdentityFile=none".to_owned(),
            format!("IdentityAgent={}", self.socket().display()),
            "ForwardAgent=no".to_owned(),
            "ConnectTimeout=30".to_owned(),
        ];
        let options: Vec<String> = options.iter().map(|option| format!("-o {option}")).collect();
        format!("core.sshCommand=ssh -F /dev/null {}", options.join(" "))
    }

    /// Gives the key to its holder, through a pipe, for logins of ours at this host and for nothing else; what is said against it.
    async fn add(&self, way: &Signed, holder: &Path) -> Result<String, StoreError> {
        let Signed { host, port, login, key } = way;
        let place = if *port == 22 { host.clone() } else { format!("[{host}]:{port}") };
        let mut add = program("ssh-add");
        // A key with a passphrase asks for it; nobody answers, also where there is a terminal.
        add.env("SSH_AUTH_SOCK", holder).env("SSH_ASKPASS_REQUIRE", "force").env("SSH_ASKPASS", "/bin/false");
        add.arg("-q").arg("-H").arg(self.hosts()).arg("-h").arg(format!("{login}@{place}")).arg("-");
        add.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = add.spawn().map_err(not_started("ssh-add"))?;
        // In one piece: a buffer that grows leaves the key behind.
        let key = key.trim_end();
        let mut text = Zeroizing::new(String::with_capacity(key.len().saturating_add(1)));
        text.push_str(key);
        text.push('\n');
        if let Some(mut input) = child.stdin.take() {
            // What does not take it all says why.
            let _ = input.write_all(text.as_bytes()).await;
        }
        let done = child.wait_with_output().await.map_err(not_started("ssh-add"))?;
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        Ok(match done.status.success() {
            true => String::new(),
            false if said.is_empty() => "no".into(),
            false => said,
        })
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, "where a key was signed with is still there");
        }
    }
}

/// Lets those inside speak with the holder, a few at a time.
async fn listen(listener: UnixListener, holder: PathBuf) {
    let mut all = JoinSet::new();
    loop {
        let Ok((inside, _)) = listener.accept().await else {
            // No descriptor is free: later one may be.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
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

    fn ours(key: String) -> Signed {
        Signed { host: "site.test".into(), port: 2222, login: "git".into(), key: Zeroizing::new(key) }
    }

    /// A key without a passphrase, or with this one; what is secret of it.
    async fn made(file: &Path, passphrase: &str) -> String {
        let made =
            program("ssh-keygen").args(["-q", "-t", "ed25519", "-N", passphrase, "-f"]).arg(file).status();
        assert!(made.await.unwrap().success());
        std::fs::read_to_string(file).unwrap()
    }

    #[tokio::test]
    async fn a_key_is_held_for_one_host_signed_with_and_gone() {
        let place = tempfile::tempdir().unwrap();
        let (file, theirs) = (place.path().join("key"), place.path().join("theirs"));
        let (key, _) = (made(&file, "").await, made(&theirs, "").await);
        let (files, folder) = ([place.path().join("known")], place.path().join("held"));
        let unknown = Holder::of(&ours(key.clone()), &files, folder.clone()).await.unwrap_err();
        assert!(unknown.to_string().contains("ssh-keyscan -p 2222 site.test"), "{unknown}");
        let public = std::fs::read_to_string(theirs.with_extension("pub")).unwrap();
        std::fs::write(&files[0], format!("[site.test]:2222 {public}")).unwrap();
        let holder = Holder::of(&ours(key), &files, folder.clone()).await.unwrap();
        let ask = |words: &'static [&'static str], file: PathBuf| {
            let mut ask = program("ssh-add");
            ask.env("SSH_AUTH_SOCK", holder.socket())
                .args(words)
                .args(file.is_file().then_some(file))
                .output()
        };
        let listed = ask(&["-L"], PathBuf::new()).await.unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains("ssh-ed25519 "), "{listed:?}");
        let public = file.with_extension("pub");
        assert!(!ask(&["-T"], public).await.unwrap().status.success(), "it signs logins at that host only");
        assert!(
            !ask(&["-d"], file.clone()).await.unwrap().status.success(),
            "and is not taken away by those inside"
        );
        assert!(!ask(&["-q"], file.clone()).await.unwrap().status.success(), "nor given others");
        drop(holder);
        assert!(!folder.exists());
        let refused = Holder::of(&ours("no key".into()), &files, folder.clone()).await.unwrap_err();
        assert!(refused.to_string().contains("no private key"), "{refused}");
        let locked = made(&place.path().join("locked"), "a passphrase").await;
        assert!(Holder::of(&ours(locked), &files, folder.clone()).await.is_err());
        for odd in ["it's", "a b", "%h", "${X}", &"x".repeat(100)] {
            let why = Holder::of(&ours(String::new()), &files, place.path().join(odd)).await.unwrap_err();
            assert!(why.to_string().contains("data directory"), "{odd}: {why}");
        }
        assert!(!folder.exists(), "nothing is left of those either");
        let queue = place.path().join("queue");
        let made = std::process::Command::new("mkfifo").arg(&queue).status().unwrap();
        assert!(made.success() && known(&[queue]).is_err(), "nobody waits for it");
    }

    #[test]
    fn wt_01_what_a_host_is_not_spoken_to_for_is_told_as_it_is() {
        let why = |err: &str| refused(err, &ours(String::new()), &[]).map(|error| error.to_string());
        let said = |err: &str, text: &str| why(err).is_some_and(|why| why.contains(text));
        assert!(said(
            "@@ WARNING: REVOKED HOST KEY DETECTED! @@\nHost key verification failed.\n",
            "taken back"
        ));
        assert!(said(
            "REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed.\n",
            "another key"
        ));
        assert!(said("Host key verification failed.\r\n", "nobody said which key"));
        assert!(said("git@site.test: Permission denied (publickey).\r\n", "does not take the key"));
        assert_eq!(
            why(
                "remote: git@site.test: Permission denied (publickey).\nremote: Host key verification failed"
            ),
            None
        );
    }
}
