//! Attacks each shape of a spawner's sandboxes once, before the first of it is used ([`crate::probe`]).
//!
//! The test runs in a child, so that nothing of it stays with the spawner. Invariant: a shape that did not hold, or whose
//! test did not come to its end, is not used; it is tested again when it is asked for again. A shape that held costs one
//! look into a set.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::pipe::PipeFlags;
use rustix::process::Signal;

use crate::launch::{Tree, comes};
use crate::plan::Plan;
use crate::probe::{SelfTest, SelfTestError, shape};
use crate::sys::process::{Side, fork, leave};

/// The most shapes that are remembered here; the files remember all.
const MOST: usize = 1024;
/// The longest that a test may take: it ends by itself in less.
const LONGEST: Duration = Duration::from_secs(30);
/// What the child says of a shape that held.
const HELD: &[u8] = b"held";

/// Why a shape is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unproven {
    /// It does not hold, or could not be tested.
    #[error("{0}")]
    Through(String),
    /// The test did not come to its end.
    #[error("the self-test of this sandbox did not come to its end, so nothing was started; try again")]
    Unfinished,
    /// The test could not be begun.
    #[error("the self-test of this sandbox could not be begun, so nothing was started: {0}")]
    Begin(#[source] io::Error),
}

/// Shapes that held.
pub(super) struct Proven {
    test: Result<SelfTest, SelfTestError>,
    known: BTreeSet<Vec<u8>>,
}

impl Proven {
    /// With the memory below this directory of states.
    pub(super) fn new(state: &Path) -> Self {
        Self { test: SelfTest::new(state), known: BTreeSet::new() }
    }

    /// Lets a plan pass if its shape held before, or holds now.
    pub(super) fn ensure(&mut self, plan: &Plan) -> Result<(), Unproven> {
        let shape = shape::shape(plan);
        if self.known.contains(&shape) {
            return Ok(());
        }
        let test = self.test.as_ref().map_err(|error| Unproven::Through(error.to_string()))?;
        apart(test, plan)?;
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert(shape);
        Ok(())
    }
}

/// The test in a child, which ends with this process.
fn apart(test: &SelfTest, plan: &Plan) -> Result<(), Unproven> {
    let (hears, tells) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| Unproven::Begin(error.into()))?;
    match fork(0, None).map_err(Unproven::Begin)? {
        Side::Child => {
            drop(hears);
            let told = match rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
                Ok(()) => {
                    test.ensure(plan).map_or_else(|error| error.to_string().into_bytes(), |()| HELD.to_vec())
                }
                Err(error) => error.to_string().into_bytes(),
            };
            let _ = std::fs::File::from(tells).write_all(&told);
            leave(0)
        }
        Side::Parent(pid, pidfd) => {
            drop(tells);
            // Ended with the value, whatever it does.
            let _child = Tree::new(pid, pidfd).map_err(Unproven::Begin)?;
            if !comes(hears.as_fd(), LONGEST).map_err(Unproven::Begin)? {
                return Err(Unproven::Unfinished);
            }
            // Short enough to come in one piece.
            let mut bytes = [0u8; 4096];
            let got = rustix::io::read(&hears, &mut bytes).map_err(|error| Unproven::Begin(error.into()))?;
            match bytes.get(..got).unwrap_or_default() {
                HELD => Ok(()),
                [] => Err(Unproven::Unfinished),
                why => Err(Unproven::Through(String::from_utf8_lossy(why).into_owned())),
            }
        }
    }
}
