//! Turns the tables into a program of classic BPF.
//!
//! Flow: rows -> [`Segment`]s (all 2^32 numbers, cut where the verdict changes) -> a balanced search tree
//! over their first numbers, with a rule's tests at its leaf -> instructions.
//!
//! The program is written from its end to its start. Jumps only go forward, so whatever a branch leads to has
//! already been placed when the branch is written, and every distance is known. A branch reaches 255
//! instructions; for what lies further, a new return or a long jump is placed on the way.
//!
//! Invariants: until an argument decides, only the architecture and the number are loaded and only compared,
//! so the kernel can work out beforehand that a plainly allowed call needs no filter and skips it (5.11 and
//! later). Every path ends in a return. Not here: loading it (`sys`).

use super::rule::{Call, Case, Refusal, Test, Verdict, Word};
use super::{Instruction, Tracing};

/// Classic BPF, as far as seccomp takes it and we use it (linux/bpf_common.h).
pub(super) mod code {
    /// Load a 32-bit word of `seccomp_data`.
    pub(in super::super) const LOAD: u16 = 0x20;
    pub(in super::super) const AND: u16 = 0x54;
    pub(in super::super) const JUMP: u16 = 0x05;
    pub(in super::super) const IF_EQUAL: u16 = 0x15;
    /// At least, unsigned.
    pub(in super::super) const IF_FROM: u16 = 0x35;
    pub(in super::super) const IF_BITS: u16 = 0x45;
    pub(in super::super) const RETURN: u16 = 0x06;
}

/// Offsets in `seccomp_data`.
pub(super) const NUMBER: u32 = 0;
pub(super) const ARCHITECTURE: u32 = 4;
pub(super) const ARGUMENTS: u32 = 16;

/// AUDIT_ARCH_X86_64: EM_X86_64, 64-bit, little-endian.
pub(super) const X86_64: u32 = 0xc000_003e;
/// x32 calls carry this bit and the architecture of x86_64.
pub(super) const X32: u32 = 0x4000_0000;
/// Numbers from here are negative: a tracer sets -1 to skip a call, which must not kill.
const NEGATIVE: u32 = 0x8000_0000;

/// How far a branch may lead, less what may be placed between a look and a jump.
const REACH: usize = 250;

/// What the filter of this sandbox is, as instructions.
pub(super) fn program(allowed: &'static [Call], refused: &[Refusal], tracing: Tracing) -> Vec<Instruction> {
    let segments = segments(allowed, refused, tracing);
    let mut assembly = Assembly { reversed: Vec::with_capacity(1024), returns: Vec::new(), tracing };
    let tree = assembly.tree(&segments);
    let known = assembly.step(code::LOAD, NUMBER, tree);
    let ours = assembly.branch(code::IF_EQUAL, X86_64, known, Target::Verdict(Verdict::Kill));
    assembly.step(code::LOAD, ARCHITECTURE, ours);
    assembly.reversed.reverse();
    assembly.reversed
}

/// Numbers from `start` to the next segment share this fate.
struct Segment {
    start: u32,
    cases: &'static [Case],
    otherwise: Verdict,
}

fn segments(allowed: &'static [Call], refused: &[Refusal], tracing: Tracing) -> Vec<Segment> {
    let listed = allowed.iter().map(|call| {
        // With no case left the rule is as plain as any other, and can be merged.
        let ruled = call.rule.cases.iter().any(|case| tracing.reads(case));
        let cases = if ruled { call.rule.cases } else { &[] };
        Segment { start: call.number, cases, otherwise: call.rule.otherwise }
    });
    let known = refused.iter().map(|call| plain(call.number, Verdict::Errno(call.errno)));
    let mut rows: Vec<Segment> = listed.chain(known).collect();
    rows.sort_unstable_by_key(|row| row.start);

    let unknown = Verdict::Errno(libc::ENOSYS);
    let mut all = Vec::with_capacity(256);
    let mut next = 0;
    for row in rows {
        if row.start > next {
            extend(&mut all, plain(next, unknown));
        }
        next = row.start + 1;
        extend(&mut all, row);
    }
    extend(&mut all, plain(next, unknown));
    extend(&mut all, plain(X32, Verdict::Kill));
    extend(&mut all, plain(NEGATIVE, unknown));
    all
}

fn plain(start: u32, otherwise: Verdict) -> Segment {
    Segment { start, cases: &[], otherwise }
}

/// Adds a segment, unless the one before simply goes on.
fn extend(all: &mut Vec<Segment>, next: Segment) {
    let goes_on = all.last().is_some_and(|last| {
        last.cases.is_empty() && next.cases.is_empty() && last.otherwise == next.otherwise
    });
    if !goes_on {
        all.push(next);
    }
}

impl Tracing {
    /// Whether a case can ever hold here.
    fn reads(self, case: &Case) -> bool {
        match self {
            Tracing::Own => true,
            Tracing::Refused => !case.when.iter().any(|test| matches!(test, Test::OwnTracing)),
        }
    }
}

/// Where to go on: at a placed instruction, or by a verdict that may be placed anywhere.
#[derive(Clone, Copy)]
enum Target {
    /// Index into `reversed`.
    At(usize),
    Verdict(Verdict),
}

struct Assembly {
    /// The program, last instruction first.
    reversed: Vec<Instruction>,
    /// The nearest return of each kind.
    returns: Vec<(Verdict, usize)>,
    tracing: Tracing,
}

impl Assembly {
    fn tree(&mut self, segments: &[Segment]) -> Target {
        let (low, high) = segments.split_at(segments.len() / 2);
        match (low, high) {
            ([], [one]) => self.rule(one),
            (_, [first, ..]) => {
                let from = self.tree(high);
                let below = self.tree(low);
                self.branch(code::IF_FROM, first.start, from, below)
            }
            (_, []) => Target::Verdict(Verdict::Kill),
        }
    }

    fn rule(&mut self, segment: &Segment) -> Target {
        let tracing = self.tracing;
        let mut target = Target::Verdict(segment.otherwise);
        for case in segment.cases.iter().rev().filter(|case| tracing.reads(case)) {
            let otherwise = target;
            target = Target::Verdict(case.then);
            for test in case.when.iter().rev() {
                target = self.test(test, target, otherwise);
            }
        }
        target
    }

    fn test(&mut self, test: &Test, yes: Target, no: Target) -> Target {
        match *test {
            Test::OwnTracing => yes,
            Test::AnyBit { word, bits } => {
                let asked = self.branch(code::IF_BITS, bits, yes, no);
                self.step(code::LOAD, offset(word), asked)
            }
            Test::OneOf { values: [], .. } => no,
            Test::OneOf { word, mask, values } => {
                let mut asked = no;
                for value in values.iter().rev() {
                    asked = self.branch(code::IF_EQUAL, *value, yes, asked);
                }
                if mask != u32::MAX {
                    asked = self.step(code::AND, mask, asked);
                }
                self.step(code::LOAD, offset(word), asked)
            }
        }
    }

    fn branch(&mut self, code: u16, k: u32, yes: Target, no: Target) -> Target {
        let no = self.near(no);
        let yes = self.near(yes);
        let (jt, jf) = (self.short(yes), self.short(no));
        self.place(Instruction { code, jt, jf, k })
    }

    /// An instruction that is followed by `next` without a choice.
    fn step(&mut self, code: u16, k: u32, next: Target) -> Target {
        match next {
            Target::At(at) if self.distance(at) == 0 => {}
            Target::At(at) => {
                self.jump(at);
            }
            Target::Verdict(verdict) => {
                self.give(verdict);
            }
        }
        self.place(Instruction { code, jt: 0, jf: 0, k })
    }

    /// A place within a branch's reach that does what `target` does.
    fn near(&mut self, target: Target) -> usize {
        match target {
            Target::At(at) if self.distance(at) <= REACH => at,
            Target::At(at) => self.jump(at),
            Target::Verdict(verdict) => {
                let placed = self.returns.iter().find(|(given, _)| *given == verdict);
                match placed {
                    Some(&(_, at)) if self.distance(at) <= REACH => at,
                    _ => self.give(verdict),
                }
            }
        }
    }

    fn jump(&mut self, to: usize) -> usize {
        // The kernel takes at most 4096 instructions, so a distance fits.
        let k = u32::try_from(self.distance(to)).unwrap_or(u32::MAX);
        self.push(Instruction { code: code::JUMP, jt: 0, jf: 0, k })
    }

    fn give(&mut self, verdict: Verdict) -> usize {
        let at = self.push(Instruction { code: code::RETURN, jt: 0, jf: 0, k: action(verdict) });
        self.returns.retain(|(given, _)| *given != verdict);
        self.returns.push((verdict, at));
        at
    }

    /// How many instructions the one placed next would skip to get there.
    fn distance(&self, to: usize) -> usize {
        self.reversed.len().saturating_sub(to + 1)
    }

    /// The same for a place that `near` has just answered with, so it fits. There are two programs in all,
    /// and tests compare both with the tables at every number.
    fn short(&self, to: usize) -> u8 {
        u8::try_from(self.distance(to)).unwrap_or(u8::MAX)
    }

    fn place(&mut self, instruction: Instruction) -> Target {
        Target::At(self.push(instruction))
    }

    fn push(&mut self, instruction: Instruction) -> usize {
        self.reversed.push(instruction);
        self.reversed.len() - 1
    }
}

fn offset(word: Word) -> u32 {
    match word {
        Word::Low(argument) => ARGUMENTS + 8 * u32::from(argument),
        Word::High(argument) => ARGUMENTS + 8 * u32::from(argument) + 4,
    }
}

/// The value a seccomp program returns.
pub(super) fn action(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Allow => libc::SECCOMP_RET_ALLOW,
        Verdict::Errno(errno) => libc::SECCOMP_RET_ERRNO | (errno.cast_unsigned() & libc::SECCOMP_RET_DATA),
        Verdict::Kill => libc::SECCOMP_RET_KILL_PROCESS,
    }
}
