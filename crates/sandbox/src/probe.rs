//! Attacks a sandbox of a new shape before it is used.
//!
//! Flow: [`Plan`] -> a trial of the same shape, in which this very program makes some sixty attacks -> [`Probed`],
//! one line each -> an empty file named for the shape, the boot, the build and the user, or a refusal that names
//! what got through. A shape that was tested costs one look at that file.
//!
//! Invariant: a shape is used only if every attack was answered and refused; what a part left out on purpose alone
//! stood against is excused, and nothing else. Not here: what the attacks are (`attacks`).

mod attacks;
mod outer;
mod outside;
pub(crate) mod shape;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::Serialize;

use crate::groups::Wanted;
use crate::launch::{Held, LaunchError};
use crate::permit::Permit;
use crate::plan::{Access, Mount, Part, Plan};
use crate::receipt::RunId;
use crate::standard::Standard;
use crate::sys;
use attacks::ATTACKS;
use outside::{Bait, CANARY, VARIABLE};

#[doc(hidden)]
pub use outer::refuse_calls;

/// The first argument with which the program answers from inside.
pub const ARGUMENT: &str = "--self-probe";
/// Where the program is inside.
const PROGRAM: &str = "/run/palisade-probe";
/// The attacks end by themselves after so many seconds, whatever hangs.
const MOST_SECONDS: u32 = 10;
/// The most that is kept of the answers.
const MOST_BYTES: u64 = 64 * 1024;

/// Why a shape is not used.
#[derive(Debug, thiserror::Error)]
pub enum SelfTestError {
    /// An attack got through, or was not answered.
    #[error(
        "this sandbox does not hold, so nothing was started: {} got through; `palisade doctor --self-test` shows \
         every attack, and a report of it is welcome",
        names(.0)
    )]
    Through(Vec<Probed>),
    /// The trial could not be made.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A file could not be used.
    #[error("self-test: {0}: {1}")]
    File(&'static str, #[source] io::Error),
}

fn names(through: &[Probed]) -> String {
    let name = |probed: &Probed| match probed.name {
        attacks::PLACES => {
            format!("`{}` (is a directory such as /etc or /tmp given to be written?)", attacks::PLACES)
        }
        name => format!("`{name}`"),
    };
    let names: Vec<String> = through.iter().take(8).map(name).collect();
    let more = through.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.join(", ") + &more
}

/// What became of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was refused: by this error number, by a signal (negative), or because there is nothing to reach (0).
    Refused(i32),
    /// It did what it tried.
    Through,
    /// Nobody answered; it counts as got through.
    Unanswered,
}

/// One attack and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probed {
    /// What was tried.
    pub name: &'static str,
    /// What became of it.
    pub outcome: Outcome,
    /// The part that was left out on purpose and alone stood against it.
    pub excused: Option<&'static str>,
}

impl Probed {
    /// Whether the shape may be used as far as this attack goes.
    #[must_use]
    pub fn holds(&self) -> bool {
        matches!(self.outcome, Outcome::Refused(_)) || self.excused.is_some()
    }
}

/// Tests shapes, and remembers which held.
#[derive(Debug)]
pub struct SelfTest {
    state: PathBuf,
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl SelfTest {
    /// With this program, and a memory below the directory of states.
    ///
    /// # Errors
    /// When the program does not know its own place.
    pub fn new(state: &Path) -> Result<Self, SelfTestError> {
        let program = std::env::current_exe().map_err(|error| SelfTestError::File("own program", error))?;
        Ok(Self::with(state, program, vec![ARGUMENT.into()]))
    }

    fn with(state: &Path, program: PathBuf, arguments: Vec<OsString>) -> Self {
        Self { state: state.to_owned(), program, arguments }
    }

    /// Lets a plan pass if its shape held before, or holds now.
    ///
    /// # Errors
    /// When an attack got through, or the test could not be made: the plan must not be launched.
    pub fn ensure(&self, plan: &Plan) -> Result<(), SelfTestError> {
        let name = shape::name(plan).map_err(|error| SelfTestError::File("name of the shape", error))?;
        let known = self.folder().join(&name);
        if rustix::fs::access(&known, rustix::fs::Access::EXISTS).is_ok() {
            return Ok(());
        }
        let through: Vec<Probed> = self.run(plan)?.into_iter().filter(|probed| !probed.holds()).collect();
        if !through.is_empty() {
            return Err(SelfTestError::Through(through));
        }
        // A shape that is not remembered is tested again; that is no reason to refuse.
        let _ = self.remember(&known, &name);
        Ok(())
    }

    fn folder(&self) -> PathBuf {
        self.state.join("selftest")
    }

    /// Notes that a shape held, and forgets those of other boots.
    fn remember(&self, known: &Path, name: &str) -> io::Result<()> {
        let folder = self.folder();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let boot = name.split('-').next().unwrap_or_default();
        for entry in fs::read_dir(&folder)?.flatten() {
            if !entry.file_name().to_string_lossy().starts_with(boot) {
                let _ = fs::remove_file(entry.path());
            }
        }
        fs::File::create(known).map(drop)
    }

    /// Makes every attack in a sandbox of this plan's shape, whether it held before or not.
    ///
    /// # Errors
    /// When the sandbox cannot be made.
    pub fn run(&self, plan: &Plan) -> Result<Vec<Probed>, SelfTestError> {
        let bait = Bait::lay(plan, &self.state);
        let trial =
            self.trial(plan, &bait).map_err(|error| SelfTestError::File("what lies outside", error))?;
        let failed = |error: rustix::io::Errno| SelfTestError::File("pipe", error.into());
        let (answers, inside) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(failed)?;
        let null =
            || rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, rustix::fs::Mode::empty());
        let standard = Standard::of([null().map_err(failed)?, inside, null().map_err(failed)?]);
        let ended = trial.launch(Permit::own_process(), standard).and_then(Held::go)?.wait();
        ended.map_err(|error| SelfTestError::File("end of the trial", error))?;
        let mut text = String::new();
        let read = fs::File::from(answers).take(MOST_BYTES).read_to_string(&mut text);
        read.map_err(|error| SelfTestError::File("answers", error))?;
        drop(bait);
        Ok(read_answers(&text, plan.left_out()))
    }

    /// The same sandbox with this program in it, and with nothing of the command.
    fn trial(&self, plan: &Plan, bait: &Bait) -> io::Result<Plan> {
        let mut trial = plan.clone();
        // Its groups are not those of the sandbox that waits for its end.
        trial.run = RunId::new().map_err(io::Error::other)?;
        trial.command = std::iter::once(PROGRAM.into()).chain(self.arguments.iter().cloned()).collect();
        trial.directory = "/".into();
        let outside = serde_json::to_string(&bait.outside).map_err(io::Error::other)?;
        trial.environment = vec![format!("{VARIABLE}={outside}").into()];
        // How much may be used says nothing about what can be reached, and making groups takes longest.
        trial.together = Wanted::default();
        trial.requires_groups = false;
        trial.mounts.push(Mount::host(&self.program, PROGRAM, Access::Read));
        trial.files.push((CANARY.into(), b"nobody may read this\n".to_vec()));
        Ok(trial)
    }
}

/// What was answered, for every attack there is.
fn read_answers(text: &str, left_out: &[Part]) -> Vec<Probed> {
    let outcome = |name: &str| {
        let mut told = text
            .lines()
            .filter_map(|line| line.strip_prefix("probe ")?.strip_prefix(name)?.strip_prefix(' '));
        match (told.next(), told.next()) {
            (Some("THROUGH"), None) => Outcome::Through,
            (Some(refused), None) => match refused.strip_prefix("ok ").and_then(|number| number.parse().ok())
            {
                Some(number) => Outcome::Refused(number),
                None => Outcome::Unanswered,
            },
            _ => Outcome::Unanswered,
        }
    };
    let probed = ATTACKS.iter().map(|attack| {
        let outcome = outcome(attack.name);
        let excused = attack.only.filter(|part| outcome == Outcome::Through && left_out.contains(part));
        Probed { name: attack.name, outcome, excused: excused.map(Part::word) }
    });
    probed.collect()
}

/// Makes every attack from where this process is, and writes one line for each. Run inside only.
pub fn answer() -> io::Result<()> {
    sys::probe::end_after(MOST_SECONDS);
    if !Path::new(CANARY).exists() {
        return Err(io::Error::other("this is for the inside of a sandbox only"));
    }
    let outside = std::env::var(VARIABLE).unwrap_or_default();
    let outside = serde_json::from_str(&outside).map_err(io::Error::other)?;
    for attack in ATTACKS {
        let line = match (attack.run)(&outside) {
            Ok(()) => format!("probe {} THROUGH\n", attack.name),
            Err(number) => format!("probe {} ok {number}\n", attack.name),
        };
        rustix::io::write(rustix::stdio::stdout(), line.as_bytes())?;
    }
    io::stdout().flush()
}
