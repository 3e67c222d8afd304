//! The spawner's own loop: one thread, one verb at a time.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Signal};

use super::Options;
use super::account::{NotMade, account, answer};
use super::message::{self, Account, Answer, Order, Verb};
use super::ordered::Ordered;
use super::prepared::{self, Command, LONGEST, Prepared, Shape};
use super::proven::Proven;
use crate::begun::{Begun, Filled};
use crate::groups::{self, Groups, Wanted};
use crate::launch::{InsideEnds, LaunchError, reap_left, sealed_init};
use crate::line::Word;
use crate::plan::{Access, Identity, Limited, Plan};
use crate::profile::Entry;
use crate::receipt::RunId;
use crate::running::Ended;
use crate::spec::{Spec, identity_for};

/// The most sandboxes at once.
pub(super) const MOST_RUNS: usize = 4096;

/// A sandbox, and what became of its command.
struct Run {
    standing: Filled,
    /// Whether it was told to begin.
    begun: bool,
    gone: bool,
    ended: Option<Ended>,
    /// Its mounts: kept, so that its last process does not take them all down before anyone is told that it ended.
    mounts: Option<OwnedFd>,
}

impl Run {
    fn new(standing: Filled) -> Self {
        Self { standing, begun: false, gone: false, ended: None, mounts: None }
    }

    fn go(&mut self, keeps_mounts: bool) -> io::Result<()> {
        self.begun = true;
        if keeps_mounts {
            self.mounts = self.standing.mounts();
        }
        Ok(self.standing.line.go(None)?)
    }
}

struct Server {
    options: Options,
    proven: Proven,
    init: OwnedFd,
    pool: Vec<Begun>,
    made: u64,
    /// Those that were ordered and do not stand yet.
    ordered: Vec<Ordered>,
    runs: BTreeMap<RunId, Run>,
    /// Whose files the last order was about: the next one is likely about the same.
    owner: (u32, u32),
    /// What the last order was shaped like: the next one is likely shaped the same.
    last: Option<Shape>,
    /// Sandboxes for it that stand already.
    prepared: Vec<Prepared>,
    /// For those that have no command yet.
    null: OwnedFd,
    /// Where the kernel tells that something was mounted or unmounted on the host: they have what was there before.
    mounts: OwnedFd,
    /// When there was last time to clear away.
    cleared: Instant,
    /// Groups and mounts of sandboxes that are gone, and sandboxes for orders that did not come: to be removed when there
    /// is time.
    left: Vec<(Groups, Option<OwnedFd>)>,
    unwanted: Vec<Prepared>,
    /// Until when nothing is made ahead, because it could not be.
    pause: Option<Instant>,
}

/// How long nobody may want anything before something is made ahead.
const QUIET: Duration = Duration::from_millis(2);
/// How long one may be kept from clearing away.
const BUSY: Duration = Duration::from_millis(100);
/// How long nothing is made ahead after it could not be.
const PAUSE: Duration = Duration::from_secs(1);
/// The most groups that wait to be removed, and the most sandboxes.
const MOST_LEFT: usize = 64;
const MOST_UNWANTED: usize = 8;

/// Serves until the caller is gone.
pub(super) fn serve(line: OwnedFd, options: Options) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // Each sandbox takes a few descriptors here.
    let own = rustix::process::getrlimit(Resource::Nofile);
    let most = rustix::process::Rlimit { current: own.maximum, maximum: own.maximum };
    rustix::process::setrlimit(Resource::Nofile, most)?;
    // One before this one may have been killed with its caller.
    groups::sweep();
    let init = sealed_init()?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    let null = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())?;
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let mounts = rustix::fs::open("/proc/self/mountinfo", flags, rustix::fs::Mode::empty())?;
    let mut server = Server {
        proven: Proven::new(&options.state),
        options,
        init,
        pool: Vec::new(),
        made: 0,
        ordered: Vec::new(),
        runs: BTreeMap::new(),
        owner: (0, 0),
        last: None,
        prepared: Vec::new(),
        null,
        mounts,
        cleared: Instant::now(),
        left: Vec::new(),
        unwanted: Vec::new(),
        pause: None,
    };
    loop {
        for on in server.ready(line.as_fd())? {
            match on {
                On::Caller => {
                    let (verb, fds) = message::receive::<Verb>(line.as_fd())?;
                    if let Some(answer) = server.told(verb, fds) {
                        message::send(line.as_fd(), &answer, &[])?;
                    }
                }
                On::Line(run) => server.heard(&run),
                On::Arrives(run) => {
                    if let Some(answer) = server.arrives(&run) {
                        message::send(line.as_fd(), &answer, &[])?;
                    }
                }
                On::End(run) => {
                    if let Some(answer) = server.end(&run) {
                        message::send(line.as_fd(), &answer, &[])?;
                    }
                }
                On::Stands(run) => server.stands(&run),
                On::Idle => server.idle(),
            }
        }
        // One who keeps us busy does not keep everything that is gone.
        if server.cleared.elapsed() > BUSY {
            server.clear();
        }
    }
}

enum On {
    Caller,
    Line(RunId),
    Arrives(RunId),
    End(RunId),
    Stands(RunId),
    Idle,
}

impl Server {
    /// How long to wait for others before there is something to do; none: as long as it takes.
    fn quiet(&self) -> Option<Duration> {
        let now = Instant::now();
        let pause = self.pause.map(|until| until.saturating_duration_since(now));
        let more = match (self.pool.len() < self.options.pool || self.wants_prepared(), pause) {
            (true, None) if self.pool.is_empty() => Some(Duration::ZERO),
            (true, pause) => Some(pause.unwrap_or_default().max(QUIET)),
            (false, _) => None,
        };
        let clears = (!self.left.is_empty() || !self.unwanted.is_empty()).then_some(QUIET);
        let oldest = self.prepared.iter().map(|one| one.since).min();
        let expires = oldest.map(|since| (since + LONGEST).saturating_duration_since(now).max(QUIET));
        let late = self.ordered.iter().map(|one| one.left(now)).min();
        [more, clears, expires, late].into_iter().flatten().min()
    }

    /// Nobody wants anything: clears away, and makes one more for the pool.
    fn idle(&mut self) {
        self.clear();
        self.pause = self.pause.filter(|until| *until > Instant::now());
        match self.pool.len() < self.options.pool {
            true => self.fill_one(),
            false => self.prepare_one(),
        }
    }

    /// One that was made ahead has come to stand, or will not.
    fn stands(&mut self, run: &RunId) {
        let Some(at) = self.prepared.iter().position(|one| one.plan.run == *run) else { return };
        if self.prepared.get_mut(at).is_some_and(|one| !one.look()) {
            // Another one would fare no better; the next order says what is wanted.
            self.last = None;
            self.unwanted.append(&mut self.prepared);
        }
    }

    /// Removes what is left of those that are gone, and what nobody asked for in time.
    fn clear(&mut self) {
        self.cleared = Instant::now();
        self.left.clear();
        self.unwanted.clear();
        reap_left();
        let had = self.prepared.len();
        self.prepared.retain(|one| one.since.elapsed() < LONGEST);
        if had > 0 && self.prepared.is_empty() {
            // Whoever asks next waits a little longer.
            self.last = None;
        }
    }

    /// A pool that cannot be filled, for want of processes or memory, is no reason to end those who run.
    fn fill_one(&mut self) {
        if self.pause.is_none() && self.pool.len() < self.options.pool && self.fill().is_err() {
            self.pause = Instant::now().checked_add(PAUSE);
        }
    }

    /// Whether one more could stand for the next order.
    fn wants_prepared(&self) -> bool {
        // One who traces must see the command's process made.
        self.last.as_ref().is_some_and(|last| !last.trace)
            && self.prepared.len() < self.options.pool.div_ceil(4)
    }

    fn prepare_one(&mut self) {
        if self.pause.is_none() && self.wants_prepared() && self.prepare().is_err() {
            // Its places may be gone; the next order says what is wanted.
            self.last = None;
        }
    }

    /// One more sandbox shaped like the last order.
    fn prepare(&mut self) -> Result<(), NotMade> {
        let Some(shape) = self.last.clone() else { return Ok(()) };
        let run = RunId::new().map_err(io::Error::other)?;
        let null = || self.null.try_clone().map(Some);
        let ends = InsideEnds([null()?, null()?, null()?]);
        let (standing, plan) = self.begin(run, &shape, Command::default(), &ends)?;
        self.prepared.push(Prepared { shape, plan, standing, since: Instant::now(), looked: None });
        Ok(())
    }

    fn ready(&self, caller: BorrowedFd<'_>) -> io::Result<Vec<On>> {
        let mut polled = vec![PollFd::from_borrowed_fd(caller, PollFlags::IN)];
        for run in self.runs.values() {
            let process = run.standing.tree.pidfd.as_fd();
            // The other end of a line that is gone would be told again and again, whatever is asked.
            let line = if run.gone { process } else { run.standing.line.as_fd() };
            polled.push(PollFd::from_borrowed_fd(
                line,
                if run.gone { PollFlags::empty() } else { PollFlags::IN },
            ));
            polled.push(PollFd::from_borrowed_fd(process, PollFlags::IN));
        }
        let ordered = self.ordered.iter().map(|one| one.standing.line.as_fd());
        polled.extend(ordered.map(|line| PollFd::from_borrowed_fd(line, PollFlags::IN)));
        let coming: Vec<&Prepared> = self.prepared.iter().filter(|one| one.looked.is_none()).collect();
        let lines = coming.iter().map(|one| one.standing.line.as_fd());
        polled.extend(lines.map(|line| PollFd::from_borrowed_fd(line, PollFlags::IN)));
        let quiet = self.quiet().and_then(|quiet| rustix::event::Timespec::try_from(quiet).ok());
        match poll(&mut polled, quiet.as_ref()) {
            Ok(0) if self.late().is_none() => return Ok(vec![On::Idle]),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let late = self.late();
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let (first, rest) = match polled.split_first() {
            Some(split) => split,
            None => return Ok(Vec::new()),
        };
        let mut found = Vec::new();
        for (name, pair) in self.runs.keys().zip(rest.chunks_exact(2)) {
            if let [line, process] = pair {
                // What it still has to say comes before its end.
                match (line.revents().contains(PollFlags::IN), is_ready(process)) {
                    (true, _) => found.push(On::Line(name.clone())),
                    (false, true) => found.push(On::End(name.clone())),
                    (false, false) => {}
                }
            }
        }
        let rest = rest.get(self.runs.len() * 2..).unwrap_or_default();
        let (ordered, rest) = rest.split_at(self.ordered.len().min(rest.len()));
        for (one, line) in self.ordered.iter().zip(ordered) {
            if is_ready(line) || late == Some(&one.run) {
                found.push(On::Arrives(one.run.clone()));
            }
        }
        // Whoever asks comes before what is made ahead.
        if is_ready(first) {
            found.push(On::Caller);
            return Ok(found);
        }
        let stand = coming.iter().zip(rest);
        found.extend(
            stand.filter(|(_, line)| is_ready(line)).map(|(one, _)| On::Stands(one.plan.run.clone())),
        );
        Ok(found)
    }

    /// One more half-made sandbox.
    fn fill(&mut self) -> Result<(), LaunchError> {
        self.made += 1;
        // Of their own, whatever number this process has: groups of one that was killed may still be there.
        let name = RunId::new().map_err(|error| LaunchError::Prepare("a name", io::Error::other(error)))?;
        let name = format!("palisade-{name}");
        let identity = self.identity();
        self.pool.push(Begun::ahead(&name, identity, &self.init)?);
        Ok(())
    }

    fn identity(&self) -> Identity {
        identity_for(self.owner, u32::try_from(self.made & 0xffff).unwrap_or(0))
    }

    fn told(&mut self, verb: Option<Verb>, fds: Vec<OwnedFd>) -> Option<Answer> {
        let unknown =
            |run: RunId| Some(Answer::Refused { why: format!("there is no run `{run}`"), run: Some(run) });
        match verb {
            None => Some(Answer::Refused { run: None, why: "that is no order".into() }),
            Some(Verb::Launch(order)) => {
                let name = order.run.clone();
                self.launch(*order, fds).transpose().map(|account| answer(name, account))
            }
            Some(Verb::Go { run } | Verb::Signal { run, .. } | Verb::Freeze { run, .. })
                if self.is_ordered(&run) =>
            {
                let why = "it does not stand yet: wait for `ready`".into();
                Some(Answer::Refused { run: Some(run), why })
            }
            Some(Verb::Go { run }) => match self.begins(&run) {
                Some(Ok(())) => {
                    // Now the command works and nobody waits for us.
                    if self.pool.len() < self.options.pool / 2 {
                        self.fill_one();
                    } else if self.prepared.is_empty() {
                        self.prepare_one();
                    }
                    None
                }
                Some(Err(_)) | None => unknown(run),
            },
            Some(Verb::Signal { run, .. }) if self.runs.get(&run).is_some_and(|found| !found.begun) => {
                let why = "it has not begun: say `go` first, or `kill`".into();
                Some(Answer::Refused { run: Some(run), why })
            }
            Some(Verb::Signal { run, signal }) => {
                match self.runs.get(&run).map(|found| found.standing.line.signal(signal)) {
                    Some(Ok(())) => None,
                    Some(Err(_)) | None => unknown(run),
                }
            }
            Some(Verb::Freeze { run, frozen }) => match self.runs.get(&run) {
                Some(found) => match found.standing.groups.freeze(frozen) {
                    Some(Ok(())) => None,
                    Some(Err(error)) => Some(Answer::Refused { run: Some(run), why: error.to_string() }),
                    None => {
                        let why =
                            "there is no control group to freeze it by; `palisade doctor` says why".into();
                        Some(Answer::Refused { run: Some(run), why })
                    }
                },
                None => unknown(run),
            },
            Some(Verb::Kill { run }) => match self.standing(&run) {
                // One that does not stand yet is told as refused.
                Some(standing) => {
                    let _ = rustix::process::pidfd_send_signal(&standing.tree.pidfd, Signal::KILL);
                    None
                }
                None => unknown(run),
            },
        }
    }

    fn begins(&mut self, run: &RunId) -> Option<io::Result<()>> {
        // With others beside it there may be no time to take mounts down here.
        let keeps_mounts = self.runs.len() == 1;
        Some(self.runs.get_mut(run)?.go(keeps_mounts))
    }

    fn is_ordered(&self, run: &RunId) -> bool {
        self.ordered.iter().any(|one| one.run == *run)
    }

    /// What there is of a run, whether it stands or not.
    fn standing(&self, run: &RunId) -> Option<&Filled> {
        let ordered = || self.ordered.iter().find(|one| one.run == *run).map(|one| &one.standing);
        self.runs.get(run).map(|found| &found.standing).or_else(ordered)
    }

    /// One that should stand by now.
    fn late(&self) -> Option<&RunId> {
        let now = Instant::now();
        self.ordered.iter().find(|one| one.left(now).is_zero()).map(|one| &one.run)
    }

    /// Something is heard of one that was ordered, or too long nothing.
    fn arrives(&mut self, run: &RunId) -> Option<Answer> {
        let at = self.ordered.iter().position(|one| one.run == *run)?;
        let one = self.ordered.swap_remove(at);
        let account = match one.arrived() {
            Ok(()) => account(&one.standing, &one.plan, &one.standard, None, None).map_err(NotMade::from),
            Err(error) => Err(error.into()),
        };
        let Ordered { run, shape, standing, .. } = one;
        if account.as_ref().is_ok_and(|account| account.differences.is_empty()) {
            self.last = Some(shape);
            self.runs.insert(run.clone(), Run::new(standing));
        }
        Some(answer(run, account))
    }

    /// An account at once if one stands already; else it is told when it does.
    fn launch(&mut self, order: Order, fds: Vec<OwnedFd>) -> Result<Option<Account>, NotMade> {
        let standard = <[OwnedFd; 3]>::try_from(fds).map_err(|_| NotMade::Descriptors)?;
        if self.runs.contains_key(&order.run) || self.is_ordered(&order.run) {
            return Err(NotMade::Twice(order.run));
        }
        if self.runs.len() + self.ordered.len() >= MOST_RUNS {
            return Err(NotMade::TooMany);
        }
        let (run, command, shape) = prepared::parts(order);
        if command.words.is_empty() {
            return Err(NotMade::NoCommand);
        }
        if let Some((found, path)) = self.take(&shape, &command, &standard) {
            let table = found.looked.as_ref().map(|looked| &looked.table);
            match account(&found.standing, &found.plan, &standard, Some(&path), table) {
                Ok(account) if account.differences.is_empty() => {
                    let standing = found.standing;
                    self.runs.insert(run, Run::new(standing));
                    return Ok(Some(account));
                }
                // Something was changed under it: made anew.
                Ok(_) | Err(_) => self.unwanted.push(found),
            }
        }
        let [input, output, error] = standard.each_ref().map(|fd| fd.try_clone().map(Some));
        let ends = InsideEnds([input?, output?, error?]);
        let (standing, plan) = self.begin(run.clone(), &shape, command, &ends)?;
        self.ordered.push(Ordered { run, shape, plan, standing, standard, since: Instant::now() });
        Ok(None)
    }

    /// One that stands already for such an order, with its command told, and the program's path.
    fn take(
        &mut self,
        shape: &Shape,
        command: &Command,
        standard: &[OwnedFd; 3],
    ) -> Option<(Prepared, std::path::PathBuf)> {
        let is_mounted = poll(
            &mut [PollFd::new(&self.mounts, PollFlags::PRI)],
            Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }),
        ) != Ok(0);
        if is_mounted || self.last.as_ref() != Some(shape) {
            self.unwanted.append(&mut self.prepared);
        }
        if self.unwanted.len() > MOST_UNWANTED {
            self.unwanted.clear();
        }
        // The oldest, if it has come to stand.
        let mut found = match self.prepared.first() {
            Some(first) if first.stands() => self.prepared.remove(0),
            Some(_) | None => return None,
        };
        let is_theirs = self.spec(shape, Command::default()).is_ok_and(|spec| {
            found.plan.identity.owns.is_none_or(|owns| spec.owner().is_ok_and(|owner| owner == owns))
        });
        let is_usable = is_theirs && found.shape == *shape && found.since.elapsed() < LONGEST;
        match if is_usable { found.take(command, standard) } else { Ok(None) } {
            Ok(Some(path)) => Some((found, path)),
            Ok(None) | Err(_) => {
                self.unwanted.push(found);
                None
            }
        }
    }

    /// A sandbox of the pool with its plan; it will stand in a moment.
    fn begin(
        &mut self,
        run: RunId,
        shape: &Shape,
        command: Command,
        ends: &InsideEnds,
    ) -> Result<(Filled, Plan), NotMade> {
        let spec = self.spec(shape, command)?;
        let owner = spec.owner()?;
        if owner != self.owner {
            // What waits was made for somebody else's files.
            self.owner = owner;
            self.pool.clear();
        }
        if self.pool.is_empty() {
            self.fill()?;
        }
        let Some(waiting) = self.pool.pop() else { return Err(NotMade::TooMany) };
        let plan = spec.plan_for(run, &waiting)?;
        self.proven.ensure(&plan)?;
        Ok((waiting.give(&plan, ends, false)?, plan))
    }

    /// An order as a spec; every path beneath a root, without links.
    fn spec(&self, shape: &Shape, command: Command) -> Result<Spec, NotMade> {
        let within = |path: &Path| {
            let root = self.options.roots.iter().find(|root| path.starts_with(root));
            let root = root.ok_or_else(|| NotMade::Outside(path.to_owned()))?;
            Ok::<_, NotMade>(Entry { path: path.to_owned(), within: root.clone() })
        };
        let wanted = Wanted { memory: shape.memory, pids: Some(shape.pids), cpu: shape.cpu, io: None };
        let mut spec = Spec::closed(command.words, shape.directory.clone())
            .user(shape.user.clone())
            .memory(shape.tmp)
            .limit(Limited::Files, shape.files)
            .limit(Limited::FileSize, shape.file_size)
            .limit(Limited::Processes, shape.pids)
            .limit(Limited::Core, 0)
            .together(wanted, false);
        let (home, at) = &shape.home;
        spec = spec.home_entry(&within(home)?, at.clone());
        for path in &shape.read {
            spec = spec.entry(&within(path)?, Access::Read);
        }
        for path in &shape.write {
            spec = spec.entry(&within(path)?, Access::Write);
        }
        if shape.trace {
            spec = spec.tracing();
        }
        for (name, value) in command.variables {
            spec = spec.variable(name, value);
        }
        Ok(spec)
    }

    fn heard(&mut self, name: &RunId) {
        let Some(run) = self.runs.get_mut(name) else { return };
        match run.standing.line.hear() {
            // A command that could not be executed ends as well; why is said first.
            Ok(Word::Ended(status)) => {
                run.ended.get_or_insert(Ended::from_status(status));
            }
            Ok(Word::NotExecuted(error)) => run.ended = Some(Ended::NotExecuted(error)),
            Ok(Word::Stopped) => {}
            Ok(Word::Gone) => run.gone = true,
            // Process 1 knows no other words: whatever this is, it ends.
            Ok(Word::Rooted | Word::Ready | Word::Terminal(_) | Word::Sockets(_) | Word::Broken(_))
            | Err(_) => {
                run.gone = true;
                let _ = rustix::process::pidfd_send_signal(&run.standing.tree.pidfd, Signal::KILL);
            }
        }
    }

    fn end(&mut self, name: &RunId) -> Option<Answer> {
        let mut run = self.runs.remove(name)?;
        run.standing.tree.end();
        if self.left.len() >= MOST_LEFT {
            self.left.clear();
        }
        self.left.push((std::mem::take(&mut run.standing.groups), run.mounts.take()));
        Some(Answer::Ended { run: name.clone(), ended: run.ended.unwrap_or(Ended::Killed) })
    }
}
