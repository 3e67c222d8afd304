//! `palisade setup`: what an administrator does once for a machine.
//!
//! `apparmor`: some distributions let only programs with an `AppArmor` profile use user namespaces. This writes one for
//! the running program and loads it. Invariants: the profile names one program, which nobody but root can replace; a
//! file that is not ours is neither overwritten nor removed; what fails leaves everything as it was; an entry of root's
//! own ledger comes before the effect. Not here: finding out that `AppArmor` is in the way (`doctor`).

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ledger::{Decision, Draft};
use serde_json::json;

use super::record::OwnRecord;
use super::run::{Home, who};
use crate::cli::{ApparmorArgs, SetupCommand};
use crate::failure::Failure;
use crate::output::{self, Shown};

/// Where profiles are.
const FOLDER: &str = "etc/apparmor.d";
/// The name of the profile and of its file.
const NAME: &str = "palisade";
/// How a file of ours begins.
const MARK: &str =
    "# Written by `palisade setup apparmor`; `palisade setup apparmor --remove` takes it back.\n";
/// How long it may take to load one.
const LONGEST: Duration = Duration::from_secs(30);
/// What loads profiles.
const PARSERS: [&str; 2] = ["usr/sbin/apparmor_parser", "sbin/apparmor_parser"];

pub(super) fn run(config: Option<&Path>, command: &SetupCommand) -> Result<Shown, Failure> {
    match command {
        SetupCommand::Apparmor(args) => apparmor(&Home::find(config), args),
    }
}

fn apparmor(home: &Home, args: &ApparmorArgs) -> Result<Shown, Failure> {
    let machine = Machine { root: args.root.clone() };
    if args.remove {
        return removed(home, &machine);
    }
    let program = program()?;
    let (file, text) = (machine.file(), profile(&machine.within(&program))?);
    let trusted = machine.only_root_changes(&program);
    if args.print {
        // What is only shown lets nobody do anything.
        if let Err(why) = trusted {
            output::tell(&format!("it would not be written: {why}"));
        }
        return Ok(Shown::new(&json!({ "file": file, "profile": text }), text));
    }
    root("write a profile of AppArmor")?;
    machine.has_apparmor()?;
    let record = OwnRecord::open(&home.state)?;
    let draft = |decision| {
        let draft = Draft::new(who(), "setup.apparmor", decision).on(file.display().to_string());
        draft.with("program", program.display().to_string())
    };
    refusing(&record, &draft, trusted)?;
    let result =
        |written, loaded| json!({ "file": file, "program": program, "written": written, "loaded": loaded });
    if !machine.restricts() {
        let told = "AppArmor does not keep programs from user namespaces here, so no profile is needed; nothing was written\n";
        return Ok(Shown::new(&result(false, false), told));
    }
    refusing(&record, &draft, machine.is_ours())?;
    // No record, no effect.
    record.append(&draft(Decision::Allowed).because("asked by root"))?;
    let loaded = ended(&record, &draft, machine.write(&text))?;
    let told = if loaded {
        format!("`{}` may use user namespaces now: `{}` is loaded\n", program.display(), file.display())
    } else {
        format!(
            "`{}` is written; there is no apparmor_parser to load it, so it holds from the next start of the machine\n",
            file.display()
        )
    };
    Ok(Shown::new(&result(true, loaded), told))
}

fn removed(home: &Home, machine: &Machine) -> Result<Shown, Failure> {
    root("remove a profile of AppArmor")?;
    let file = machine.file();
    let record = OwnRecord::open(&home.state)?;
    let draft =
        |decision| Draft::new(who(), "setup.apparmor.remove", decision).on(file.display().to_string());
    if !refusing(&record, &draft, machine.is_ours())? {
        let told = format!("there is no `{}`; nothing was removed\n", file.display());
        return Ok(Shown::new(&json!({ "file": file, "removed": false }), told));
    }
    ended(&record, &draft, machine.remove())?;
    let told = format!("`{}` is removed, and what it allowed with it\n", file.display());
    Ok(Shown::new(&json!({ "file": file, "removed": true }), told))
}

/// Records that nothing was done, if it may not be.
fn refusing<T>(
    record: &OwnRecord,
    draft: &dyn Fn(Decision) -> Draft,
    allowed: Result<T, Failure>,
) -> Result<T, Failure> {
    if let Err(failure) = &allowed {
        record.append_narrowing(&draft(Decision::Refused).because(failure.to_string()))?;
    }
    allowed
}

/// Records what came of it; what was done stays done if that cannot be recorded.
fn ended<T>(
    record: &OwnRecord,
    draft: &dyn Fn(Decision) -> Draft,
    outcome: Result<T, Failure>,
) -> Result<T, Failure> {
    let draft = match &outcome {
        Ok(_) => draft(Decision::Done).because("asked by root"),
        Err(failure) => draft(Decision::Failed).because(failure.to_string()),
    };
    if let Err(unrecorded) = record.append_narrowing(&draft) {
        output::tell(&format!("what was done could not be recorded: {unrecorded}"));
    }
    outcome
}

fn root(what: &str) -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Failure::Program(format!("only root can {what}; try again with `sudo -H`, or see it with `--print`")))
}

/// This program, without links.
fn program() -> Result<PathBuf, Failure> {
    let found = std::env::current_exe().and_then(|path| path.canonicalize());
    found.map_err(|error| Failure::Program(format!("the place of this program is not known: {error}")))
}

/// Lets this program, and no other, use user namespaces; restricts nothing, as distributions do it for theirs.
fn profile(program: &Path) -> Result<String, Failure> {
    let text = program.to_str().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    if !text.starts_with('/') || !text.chars().all(is_plain) {
        // A star or a brace would name other programs as well.
        return Err(Failure::Program(format!(
            "`{}` has characters that mean something to AppArmor; install palisade as /usr/local/bin/palisade",
            program.display()
        )));
    }
    Ok(format!(
        "{MARK}abi <abi/4.0>,\ninclude <tunables/global>\n\nprofile {NAME} {text} flags=(unconfined) {{\n  userns,\n\n  \
         include if exists <local/{NAME}>\n}}\n"
    ))
}

/// The machine below a directory.
struct Machine {
    root: PathBuf,
}

impl Machine {
    fn file(&self) -> PathBuf {
        self.root.join(FOLDER).join(NAME)
    }

    /// A path as this machine sees it.
    fn within(&self, path: &Path) -> PathBuf {
        let inner = self.root.canonicalize().ok().and_then(|root| path.strip_prefix(root).ok());
        inner.map_or_else(|| path.to_owned(), |inner| Path::new("/").join(inner))
    }

    /// That nobody but root can put another program in the place of this one.
    fn only_root_changes(&self, program: &Path) -> Result<(), Failure> {
        let top = self.root.canonicalize().ok().filter(|root| program.starts_with(root));
        let top = top.unwrap_or_else(|| "/".into());
        for path in program.ancestors().take_while(|path| path.starts_with(&top)) {
            let found = fs::symlink_metadata(path).map_err(Failure::file(path))?;
            if found.uid() != 0 || found.mode() & 0o022 != 0 {
                return Err(Failure::Program(format!(
                    "`{}` can be changed by others than root, and with it which program `{}` is; install it with `sudo \
                     install -m 755 '{1}' /usr/local/bin/palisade` and use that one",
                    path.display(),
                    program.display()
                )));
            }
        }
        Ok(())
    }

    fn has_apparmor(&self) -> Result<(), Failure> {
        let switch = fs::read_to_string(self.root.join("sys/module/apparmor/parameters/enabled"));
        if !switch.is_ok_and(|text| text.trim() == "Y") {
            return Err(Failure::Program(
                "AppArmor is not at work on this machine, so it is not what stands in the way; see `palisade doctor`"
                    .into(),
            ));
        }
        if !self.root.join(FOLDER).is_dir() {
            return Err(Failure::Program(format!(
                "there is no `/{FOLDER}`; install the package `apparmor`, and in a container do this on its host"
            )));
        }
        Ok(())
    }

    /// Whether programs without a profile are kept from user namespaces.
    fn restricts(&self) -> bool {
        let switch = self.root.join("proc/sys/kernel/apparmor_restrict_unprivileged_userns");
        fs::read_to_string(switch).is_ok_and(|text| text.trim() != "0")
    }

    /// Whether the profile is there; an error if it is one that somebody else made.
    fn is_ours(&self) -> Result<bool, Failure> {
        let file = self.file();
        let found = super::run::bytes(&file).map_err(Failure::file(&file))?;
        match found {
            None => Ok(false),
            Some(text) if text.starts_with(MARK.as_bytes()) => Ok(true),
            Some(_) => Err(Failure::Program(format!(
                "`{}` was not written by this command and is left as it is; move it away first",
                file.display()
            ))),
        }
    }

    fn parser(&self) -> Option<PathBuf> {
        PARSERS.into_iter().map(|path| self.root.join(path)).find(|path| path.is_file())
    }

    /// Loads the profile, then gives it its name: what the kernel does not take is not there at the next start either.
    fn write(&self, text: &str) -> Result<bool, Failure> {
        let file = self.file();
        let folder = self.root.join(FOLDER);
        // Names that begin with a dot are not profiles.
        let whole = folder.join(format!(".{NAME}.{}", std::process::id()));
        let _ = fs::remove_file(&whole);
        let new = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&whole);
        let loaded = new
            .and_then(|mut new| new.write_all(text.as_bytes()).and_then(|()| new.sync_all()))
            .map_err(Failure::file(&whole))
            .and_then(|()| self.parser().map(|parser| parsed(&parser, "--replace", &whole)).transpose());
        let outcome = loaded.and_then(|loaded| {
            fs::rename(&whole, &file).map_err(Failure::file(&file))?;
            let synced = fs::File::open(&folder).and_then(|folder| folder.sync_all());
            synced.map_err(Failure::file(&folder)).map(|()| loaded.is_some())
        });
        if outcome.is_err() {
            let _ = fs::remove_file(&whole);
        }
        outcome
    }

    /// Takes the profile out of the kernel and off the disk.
    fn remove(&self) -> Result<(), Failure> {
        let file = self.file();
        let parser = self.parser().filter(|_| self.has_apparmor().is_ok());
        let unloaded = parser.map(|parser| parsed(&parser, "--remove", &file)).transpose();
        // A profile that was never loaded cannot be unloaded; the file goes in any case.
        fs::remove_file(&file).map_err(Failure::file(&file))?;
        let gone = |failure| Failure::Program(format!("`{}` is removed, but {failure}", file.display()));
        unloaded.map(|_| ()).map_err(gone)
    }
}

/// Has `apparmor_parser` do something with a file.
fn parsed(parser: &Path, what: &str, file: &Path) -> Result<(), Failure> {
    let mut command = Command::new(parser);
    command.arg(what).arg(file).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(Failure::file(parser))?;
    let deadline = Instant::now() + LONGEST;
    while child.try_wait().map_err(Failure::file(parser))?.is_none() {
        if Instant::now() > deadline {
            let _ = child.kill().and_then(|()| child.wait().map(drop));
            let seconds = LONGEST.as_secs();
            return Err(Failure::Program(format!("apparmor_parser {what} did not end in {seconds} seconds")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().map_err(Failure::file(parser))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Program(format!("apparmor_parser {what}: {}", why.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sbx_10_a_profile_names_exactly_one_program() {
        let text = profile(Path::new("/usr/local/lib/palisade-1.2_x+y/palisade")).unwrap();
        assert!(text.starts_with(MARK), "{text}");
        let rules: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            rules,
            [
                "abi <abi/4.0>,",
                "include <tunables/global>",
                "",
                "profile palisade /usr/local/lib/palisade-1.2_x+y/palisade flags=(unconfined) {",
                "  userns,",
                "",
                "  include if exists <local/palisade>",
                "}",
            ]
        );
        let strange = [
            "palisade",
            "",
            "/a b",
            "/a*",
            "/a?",
            "/{a,b}",
            "/[ab]",
            "/^a",
            "/@{HOME}/a",
            "/\"a",
            "/a\nb",
            "/ä",
        ];
        for path in strange {
            assert!(profile(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn sbx_10_a_program_below_a_directory_of_others_can_be_replaced() {
        let machine = Machine { root: "/".into() };
        // Everybody may write to the directory of temporary files.
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let program = folder.path().join("palisade");
        std::fs::write(&program, "").unwrap();
        let why = machine.only_root_changes(&program.canonicalize().unwrap()).unwrap_err().to_string();
        assert!(
            why.contains("can be changed by others than root") && why.contains("/usr/local/bin"),
            "{why}"
        );
    }
}
