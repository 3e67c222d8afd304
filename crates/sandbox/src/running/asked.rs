//! What others ask of a run at work: to say who it is, to stand still, to end, and what of its network is to change.

use super::{Attendant, Running};
use crate::control::{Ask, Control, Said};
use crate::freeze::Frozen;

/// What is said of a run whose network cannot be changed, since there is none.
const NO_NETWORK: &str = "it has no network";

impl Running {
    /// Does what somebody else asks.
    pub(super) fn asked(&mut self, attendant: &mut Option<&mut dyn Attendant>) {
        let Some((ask, peer)) = self.control.as_ref().and_then(Control::question) else { return };
        let mut why = None;
        match ask {
            Ask::Tell | Ask::Plan => {}
            Ask::Offline => {
                attendant.iter_mut().for_each(|attendant| attendant.cut());
            }
            Ask::Rules => why = self.changed(attendant).err(),
            Ask::Freeze => why = self.freeze().err().map(|error| error.to_string()),
            Ask::Thaw => why = self.thaw().err().map(|error| error.to_string()),
            Ask::Stop => {
                // What stands still cannot end by itself.
                why = self.thaw().err().map(|error| error.to_string());
                self.stop(libc::SIGTERM);
            }
            Ask::Kill => {
                self.is_stopped = true;
                let _ = rustix::process::pidfd_send_signal(&self.tree.pidfd, rustix::process::Signal::KILL);
            }
        }
        if ask == Ask::Offline && !attendant.as_ref().is_some_and(|one| one.has_network()) {
            why = Some(NO_NETWORK.into());
        }
        let command: Vec<_> = self.plan.command.iter().map(|word| word.to_string_lossy()).collect();
        let said = Said {
            done: why.is_none(),
            pid: self.pid(),
            command: command.join(" "),
            frozen: self.frozen.is_some(),
            by: self.frozen.as_ref().map(Frozen::by).unwrap_or_default().to_owned(),
            grace_ms: u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX),
            why,
            plan: (ask == Ask::Plan).then(|| Box::new(self.plan.clone())),
            rules: attendant.as_ref().and_then(|attendant| attendant.holds()),
        };
        Control::answer(&peer, &said);
    }

    /// Takes the rules that somebody left.
    fn changed(&self, attendant: &mut Option<&mut dyn Attendant>) -> Result<(), String> {
        let attendant = attendant.as_mut().filter(|one| one.has_network()).ok_or(NO_NETWORK)?;
        let left = self.control.as_ref().map(Control::left);
        let left = left.ok_or("nothing was left for it")?.map_err(|error| error.to_string())?;
        attendant.change(&left)
    }
}
