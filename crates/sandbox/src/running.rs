//! A command at work: carries bytes, passes signals, and knows when everything is gone.
//!
//! Flow: [`Held`] -> [`Running`] -> [`Ended`]. Invariant: when [`Running::wait`] comes back, no process of the
//! sandbox is left. Not here: what was promised and whether it holds ([`crate::receipt`]).

mod asked;
mod carry;
mod question;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, Winsize};

use crate::control::Control;
use crate::freeze::Frozen;
use crate::groups::Groups;
use crate::guardian::Kept;
use crate::launch::{Held, LaunchError, Tree};
use crate::line::{Line, Word};
use crate::plan::Plan;
use crate::standard::{Kind, Standard};
use crate::sys::process::{stop_here, told_of};
use crate::watch::{Over, Watch};

use self::question::Question;

/// How long a command may take to end by itself after it was asked to, unless the caller says otherwise.
const GRACE: Duration = Duration::from_secs(5);
/// How long output that is still in a pipe is waited for.
const DRAIN: Duration = Duration::from_secs(2);

/// What became of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// It ended with this code.
    Code(u8),
    /// This signal ended it.
    Signal(i32),
    /// It could not be executed, for this reason.
    NotExecuted(i32),
    /// It went beyond a limit that is watched, and was ended.
    Over(Over),
    /// The sandbox was ended from outside.
    Killed,
}

impl Ended {
    /// From what `wait` says.
    pub(crate) fn from_status(status: i32) -> Self {
        match status & 0x7f {
            0 => Self::Code(u8::try_from((status >> 8) & 0xff).unwrap_or(u8::MAX)),
            signal => Self::Signal(signal),
        }
    }

    /// The exit code, as shells give it.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
            Self::NotExecuted(libc::ENOENT) => 127,
            Self::NotExecuted(_) => 126,
            Self::Over(_) | Self::Killed => 137,
        }
    }
}

/// Who has something to do while a command is at work, in the launcher's one thread.
pub trait Attendant {
    /// What it waits for.
    fn waits_for(&self) -> Vec<BorrowedFd<'_>>;
    /// When it wants to be called even if nothing came.
    fn due(&self) -> Option<Instant>;
    /// Lets nothing out any more, and closes what is open.
    fn cut(&mut self);
    /// Takes other rules for what may be let out, as somebody wrote them; why it does not, if it does not.
    ///
    /// # Errors
    /// When they cannot be used; those before stay.
    fn change(&mut self, _written: &[u8]) -> Result<(), String> {
        Err("its network takes no other rules".into())
    }
    /// The hash of the rules that hold.
    fn holds(&self) -> Option<String> {
        None
    }
    /// Whether there is a network that could be cut or changed.
    fn has_network(&self) -> bool {
        true
    }
    /// Everything is gone.
    fn gone(&mut self) {}
    /// Whether this, which the command prints as its standard output (1), its error (2) or on its terminal (0), is shown. If
    /// not, it is asked whether everything is to stand still.
    fn shows(&mut self, _number: usize, _printed: &[u8]) -> bool {
        true
    }
    /// Something came, or it is time; must not wait. `Break` ends the sandbox.
    fn attend(&mut self) -> std::ops::ControlFlow<()>;
    /// Whether everything is to stand still from now on; told once.
    fn stops_everything(&mut self) -> bool {
        false
    }
    /// What the person at the terminal is to be asked now.
    fn question(&self) -> Option<String> {
        None
    }
    /// What the person answered to this question, in one line. `Break` ends the sandbox.
    fn answered(&mut self, _question: &str, _line: &str) -> std::ops::ControlFlow<()> {
        std::ops::ControlFlow::Continue(())
    }
}

/// A command at work.
#[derive(Debug)]
pub struct Running {
    tree: Tree,
    /// After the processes, so that it is dropped when they are gone.
    groups: Groups,
    line: Line,
    standard: Standard,
    terminal: Option<OwnedFd>,
    own: Option<OwnTerminal>,
    signals: OwnedFd,
    /// Bytes that the sandbox's terminal, or its standard input, has not taken yet.
    pending: Vec<u8>,
    input_ended: bool,
    /// Bytes that the host's standard output and error have not taken yet.
    unsent: [Vec<u8>; 3],
    /// Process 1 has nothing more to say; its end is told by its descriptor.
    line_ended: bool,
    /// Where others ask.
    control: Option<Control>,
    plan: Plan,
    watch: Watch,
    frozen: Option<Frozen>,
    grace: Duration,
    killed_at: Option<Instant>,
    /// Somebody wants it to end: nobody waits long for a reader of what it said.
    is_stopped: bool,
    /// Whoever started us, if the run is to end with them.
    parent: Option<OwnedFd>,
    /// What keeps covers in force.
    guardian: Option<OwnedFd>,
    ended: Option<Ended>,
    /// What the person is asked just now.
    question: Option<Question>,
}

/// The person's terminal while it belongs to the command.
#[derive(Debug)]
struct OwnTerminal {
    fd: OwnedFd,
    before: Termios,
}

impl OwnTerminal {
    fn take(fd: &OwnedFd) -> io::Result<Self> {
        let fd = rustix::io::fcntl_dupfd_cloexec(fd, 3)?;
        let before = rustix::termios::tcgetattr(&fd)?;
        let taken = Self { fd, before };
        taken.raw()?;
        Ok(taken)
    }

    fn raw(&self) -> io::Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(&self.fd, OptionalActions::Drain, &raw)?;
        Ok(())
    }

    fn give_back(&self) {
        let _ = rustix::termios::tcsetattr(&self.fd, OptionalActions::Drain, &self.before);
    }

    fn size(&self) -> Option<Winsize> {
        rustix::termios::tcgetwinsize(&self.fd).ok()
    }
}

impl Drop for OwnTerminal {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Held {
    /// Starts the command.
    ///
    /// # Errors
    /// When the sandbox is gone, or the terminal cannot be used.
    pub fn go(self) -> Result<Running, LaunchError> {
        // Sockets that nobody took are closed: then there is no network.
        let Self { plan, tree, line, standard, terminal, sockets: _, groups, table: _ } = self;
        let prepare = |error| LaunchError::Prepare("terminal", error);
        let watched =
            [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGWINCH, libc::SIGCONT];
        let signals = told_of(&watched).map_err(|error| LaunchError::Prepare("signals", error))?;
        let number = standard.terminal();
        let own = match (&terminal, number.and_then(|number| standard.host.get(usize::from(number)))) {
            (Some(inside), Some(host)) => {
                let own = OwnTerminal::take(host).map_err(prepare)?;
                let _ = rustix::termios::tcsetattr(inside, OptionalActions::Now, &own.before);
                if let Some(size) = own.size() {
                    let _ = rustix::termios::tcsetwinsize(inside, size);
                }
                rustix::io::ioctl_fionbio(inside, true).map_err(|error| prepare(error.into()))?;
                Some(own)
            }
            _ => None,
        };
        line.go(number).map_err(|error| LaunchError::Line(error.into()))?;
        let watch = Watch::new(&plan, &groups);
        Ok(Running {
            tree,
            groups,
            line,
            standard,
            terminal,
            own,
            signals,
            pending: Vec::new(),
            input_ended: false,
            unsent: Default::default(),
            line_ended: false,
            control: None,
            watch,
            plan,
            frozen: None,
            grace: GRACE,
            killed_at: None,
            is_stopped: false,
            parent: None,
            guardian: None,
            ended: None,
            question: None,
        })
    }
}

/// What a poll was for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Line,
    Signals,
    HostInput,
    Terminal,
    CarriedOut(usize),
    HostOutput(usize),
    CarrierIn,
    Control,
    Attendant,
    Parent,
    End,
    Guardian,
}

impl Running {
    /// The number of process 1, as the host sees it.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.tree.pid.as_raw_pid()
    }

    /// What counts the time that it takes of the processor.
    #[must_use]
    pub fn meter(&self) -> crate::Meter {
        crate::Meter::new(self.tree.pid, &self.groups)
    }

    /// Lets others of the same user ask this run to stand still, to end, or how it is made.
    #[must_use]
    pub fn controlled_by(mut self, control: Control) -> Self {
        self.control = Some(control);
        self
    }

    /// Lets the command have this long to end by itself when it is asked to.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Ends everything when this process ends.
    #[must_use]
    pub fn ending_with(mut self, parent: OwnedFd) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Ends everything when what keeps its covers is gone.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn guarded_by(mut self, kept: Option<&Kept>) -> io::Result<Self> {
        let again = |kept: &Kept| rustix::io::fcntl_dupfd_cloexec(kept.descriptor(), 3);
        self.guardian = kept.map(again).transpose()?;
        Ok(self)
    }

    /// Waits for the end of the command and of everything that it left behind.
    ///
    /// # Errors
    /// When the line to the inside breaks its rules; everything is gone then too.
    pub fn wait(self) -> io::Result<Ended> {
        self.wait_with(None)
    }

    /// The same, and calls somebody meanwhile.
    ///
    /// # Errors
    /// As [`Running::wait`].
    pub fn wait_attended(self, attendant: &mut dyn Attendant) -> io::Result<Ended> {
        self.wait_with(Some(attendant))
    }

    fn wait_with(mut self, mut attendant: Option<&mut dyn Attendant>) -> io::Result<Ended> {
        let mut gone_at: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if self.killed_at.is_some_and(|at| now >= at) {
                self.killed_at = None;
                let _ = rustix::process::pidfd_send_signal(&self.tree.pidfd, rustix::process::Signal::KILL);
            }
            if gone_at.is_some_and(|at| self.is_over(now >= at + DRAIN)) {
                break;
            }
            if gone_at.is_none()
                && let Some(over) = self.watch.look(self.tree.pid, &self.groups, self.frozen.is_some())
            {
                self.ended.get_or_insert(Ended::Over(over));
                let _ = rustix::process::pidfd_send_signal(&self.tree.pidfd, rustix::process::Signal::KILL);
                self.watch = Watch::default();
            }
            let attend_at = attendant.as_ref().filter(|_| gone_at.is_none()).and_then(|one| one.due());
            if attend_at.is_some_and(|at| now >= at) {
                self.attend(&mut attendant);
            }
            self.ask(&mut attendant, gone_at.is_none());
            let drained_at = gone_at.map(|at| at + DRAIN).filter(|at| *at > now);
            let deadlines = [self.killed_at, drained_at, self.watch.due(), attend_at];
            let deadline = deadlines.into_iter().flatten().min();
            for on in self.ready(deadline, gone_at.is_none(), attendant.as_deref())? {
                match on {
                    On::Line => self.heard()?,
                    On::Signals => self.signalled(),
                    On::HostInput if self.question.is_some() => self.take_answer(&mut attendant),
                    On::HostInput => self.take_input(),
                    On::Terminal => self.move_terminal(&mut attendant),
                    On::CarriedOut(number) => self.carry_out(number, &mut attendant),
                    On::HostOutput(number) => self.give_output(number),
                    On::CarrierIn => self.give_input(),
                    On::Control => self.asked(&mut attendant),
                    On::Attendant => self.attend(&mut attendant),
                    On::Parent => self.end_with_parent(),
                    On::End => gone_at = Some(Instant::now()),
                    On::Guardian => self.unguarded(),
                }
            }
        }
        self.tree.end();
        attendant.iter_mut().for_each(|one| one.gone());
        Ok(self.ended.unwrap_or(Ended::Killed))
    }

    /// Whether nothing of what the command said is waited for any more, now that it is gone.
    fn is_over(&self, is_late: bool) -> bool {
        let [_, out, err] = &self.standard.carriers;
        let comes = self.terminal.is_some() || out.is_some() || err.is_some();
        let has_unsent = self.unsent.iter().any(|unsent| !unsent.is_empty());
        // A reader who takes time gets everything, unless somebody wants the end.
        (!comes && !has_unsent) || (is_late && (!has_unsent || self.is_stopped))
    }

    /// Nobody would hide again what the host replaces, nor what appears: it does not go on like that. What watches ends by
    /// itself too, once the sandbox is gone.
    fn unguarded(&mut self) {
        self.guardian = None;
        let mut waiting = [PollFd::new(&self.tree.pidfd, PollFlags::IN)];
        if matches!(poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0)) {
            self.ended.get_or_insert(Ended::Killed);
            let _ = rustix::process::pidfd_send_signal(&self.tree.pidfd, rustix::process::Signal::KILL);
        }
    }

    /// Nobody is left who wants it.
    fn end_with_parent(&mut self) {
        (self.parent, self.is_stopped) = (None, true);
        self.ended.get_or_insert(Ended::Killed);
        let _ = rustix::process::pidfd_send_signal(&self.tree.pidfd, rustix::process::Signal::KILL);
    }

    /// Asks the command to end; after the grace everything is ended.
    fn stop(&mut self, signal: i32) {
        self.is_stopped = true;
        let _ = self.line.signal(u8::try_from(signal).unwrap_or(15));
        self.killed_at.get_or_insert(Instant::now() + self.grace);
    }

    /// What can be gone on with.
    fn ready(
        &self,
        deadline: Option<Instant>,
        alive: bool,
        attendant: Option<&dyn Attendant>,
    ) -> io::Result<Vec<On>> {
        let mut what: Vec<(On, BorrowedFd<'_>, PollFlags)> =
            vec![(On::Signals, self.signals.as_fd(), PollFlags::IN)];
        if alive {
            if !self.line_ended {
                what.push((On::Line, self.line.as_fd(), PollFlags::IN));
            }
            what.push((On::End, self.tree.pidfd.as_fd(), PollFlags::IN));
            what.extend(self.guardian.iter().map(|fd| (On::Guardian, fd.as_fd(), PollFlags::IN)));
            if let Some(control) = &self.control {
                what.push((On::Control, control.as_fd(), PollFlags::IN));
            }
            for fd in attendant.iter().flat_map(|one| one.waits_for()) {
                what.push((On::Attendant, fd, PollFlags::IN));
            }
        }
        let [input, ..] = &self.standard.host;
        let takes_input = match self.standard.kinds[0] {
            Kind::Terminal => self.terminal.is_some(),
            Kind::Carried => self.standard.carriers[0].is_some(),
            Kind::Passed => false,
        };
        if alive && takes_input && (self.pending.is_empty() || self.question.is_some()) && !self.input_ended {
            what.push((On::HostInput, input.as_fd(), PollFlags::IN));
        }
        if let Some(terminal) = self.terminal.as_ref().filter(|_| self.question.is_none()) {
            let writes = !self.pending.is_empty() && self.standard.kinds[0] == Kind::Terminal;
            let flags = if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            what.push((On::Terminal, terminal.as_fd(), flags));
        }
        if let (Some(carrier), false) = (&self.standard.carriers[0], self.pending.is_empty()) {
            what.push((On::CarrierIn, carrier.as_fd(), PollFlags::OUT));
        }
        what.extend(self.parent.iter().map(|parent| (On::Parent, parent.as_fd(), PollFlags::IN)));
        for (number, host) in self.standard.host.iter().enumerate().skip(1) {
            if self.unsent.get(number).is_some_and(|unsent| !unsent.is_empty()) {
                what.push((On::HostOutput(number), host.as_fd(), PollFlags::OUT));
                continue;
            }
            // Also what goes through somebody else's hands may come to the same screen.
            if let (Some(Some(carrier)), None) = (self.standard.carriers.get(number), &self.question) {
                what.push((On::CarriedOut(number), carrier.as_fd(), PollFlags::IN));
            }
        }
        let mut polled: Vec<PollFd<'_>> =
            what.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        let timeout = deadline.map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let found = what.iter().zip(&polled).filter(|(_, polled)| !polled.revents().is_empty());
        let mut found: Vec<On> = found.map(|((on, ..), _)| *on).collect();
        // However much came for it, it is called once.
        found.dedup_by(|one, other| *one == On::Attendant && *other == On::Attendant);
        Ok(found)
    }

    fn attend(&mut self, attendant: &mut Option<&mut dyn Attendant>) {
        let goes_on = attendant.as_mut().is_none_or(|one| one.attend().is_continue());
        self.stand_still(attendant);
        self.goes_on(goes_on, attendant);
    }

    /// Whether what was printed is shown; if not, everything may have to stand still.
    fn is_shown(
        &mut self,
        number: usize,
        printed: &[u8],
        attendant: &mut Option<&mut dyn Attendant>,
    ) -> bool {
        let is_shown = attendant.as_mut().is_none_or(|one| one.shows(number, printed));
        if !is_shown {
            self.stand_still(attendant);
        }
        is_shown
    }

    fn stand_still(&mut self, attendant: &mut Option<&mut dyn Attendant>) {
        if attendant.as_mut().is_some_and(|one| one.stops_everything()) {
            // What cannot stand still must not go on.
            if self.freeze().is_err() {
                self.goes_on(false, attendant);
            }
        }
    }

    fn freeze(&mut self) -> io::Result<()> {
        if self.frozen.is_none() {
            self.frozen = Some(Frozen::new(&self.groups, self.tree.pid)?);
        }
        Ok(())
    }

    fn thaw(&mut self) -> io::Result<()> {
        let Some(frozen) = &mut self.frozen else { return Ok(()) };
        frozen.thaw(&self.groups, self.tree.pid)?;
        self.frozen = None;
        Ok(())
    }

    fn goes_on(&mut self, goes_on: bool, attendant: &mut Option<&mut dyn Attendant>) {
        if !goes_on {
            self.ended.get_or_insert(Ended::Killed);
            let _ = rustix::process::pidfd_send_signal(&self.tree.pidfd, rustix::process::Signal::KILL);
            *attendant = None;
        }
    }

    fn heard(&mut self) -> io::Result<()> {
        match self.line.hear()? {
            Word::Ended(status) => {
                self.ended.get_or_insert(Ended::from_status(status));
            }
            Word::NotExecuted(error) => {
                self.ended.get_or_insert(Ended::NotExecuted(error));
            }
            Word::Stopped => self.suspended(),
            // The end itself is told by the process descriptor.
            Word::Gone => {
                self.line_ended = true;
                let _ = rustix::process::pidfd_send_signal(&self.tree.pidfd, rustix::process::Signal::KILL);
            }
            Word::Rooted | Word::Ready | Word::Terminal(_) | Word::Sockets(_) | Word::Broken(_) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "process 1 broke its rules"));
            }
        }
        Ok(())
    }

    /// The command was stopped from its terminal: so are we, and both go on together.
    fn suspended(&mut self) {
        let Some(own) = &self.own else { return };
        own.give_back();
        stop_here();
        let _ = own.raw();
        // Whatever stood there is not what stands there now: it is asked again.
        self.question = None;
        let _ = self.line.signal(u8::try_from(libc::SIGCONT).unwrap_or(18));
        self.resize();
    }

    fn resize(&self) {
        if let (Some(own), Some(terminal)) = (&self.own, &self.terminal)
            && let Some(size) = own.size()
        {
            let _ = rustix::termios::tcsetwinsize(terminal, size);
        }
    }

    fn signalled(&mut self) {
        let mut notice = [0u8; 128];
        while let Ok(128) = rustix::io::read(&self.signals, &mut notice) {
            let signal = i32::from_le_bytes([notice[0], notice[1], notice[2], notice[3]]);
            match signal {
                libc::SIGWINCH | libc::SIGCONT => self.resize(),
                libc::SIGINT => {
                    let _ = self.line.signal(u8::try_from(signal).unwrap_or(15));
                }
                _ => {
                    // What stands still cannot end by itself.
                    let _ = self.thaw();
                    self.stop(signal);
                }
            }
        }
    }
}
