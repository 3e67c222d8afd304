//! What the kernel does with a filter, for tests: its check before loading, and running it on one call.
//!
//! Written from the documented meaning of classic BPF, without looking at how `assemble` came to a program.

use super::Instruction;
use super::assemble::{ARCHITECTURE, ARGUMENTS, NUMBER, X86_64, code};

/// A system call as the kernel shows it to a filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) number: u32,
    pub(super) architecture: u32,
    pub(super) arguments: [u64; 6],
}

impl Seen {
    pub(super) fn call(number: u32, arguments: [u64; 6]) -> Self {
        Self { number, architecture: X86_64, arguments }
    }

    fn word(&self, offset: u32) -> u32 {
        match offset {
            NUMBER => self.number,
            ARCHITECTURE => self.architecture,
            _ => {
                let place = offset.checked_sub(ARGUMENTS).expect("the instruction pointer is not for us");
                let argument = self.arguments[place as usize / 8];
                if place.is_multiple_of(8) { argument as u32 } else { (argument >> 32) as u32 }
            }
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// The value returned.
    pub(super) action: u32,
    /// Instructions executed.
    pub(super) steps: usize,
    /// Whether an argument was looked at; if not, the kernel need not run the filter at all.
    pub(super) looked: bool,
}

pub(super) fn run(program: &[Instruction], seen: &Seen) -> Outcome {
    let (mut at, mut a, mut steps, mut looked) = (0_usize, 0_u32, 0, false);
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        steps += 1;
        let mut branch = |holds: bool| at += usize::from(if holds { jt } else { jf });
        match code {
            code::LOAD => {
                looked |= k >= ARGUMENTS;
                a = seen.word(k);
            }
            code::AND => a &= k,
            code::JUMP => at += k as usize,
            code::IF_EQUAL => branch(a == k),
            code::IF_FROM => branch(a >= k),
            code::IF_BITS => branch(a & k != 0),
            code::RETURN => return Outcome { action: k, steps, looked },
            other => panic!("instruction {at}: code {other:#x}"),
        }
    }
}

/// The kernel's conditions for loading, and one of our own: nothing is there that no path reaches.
pub(super) fn check(program: &[Instruction]) {
    assert!((1..=4096).contains(&program.len()), "{} instructions", program.len());
    let mut reached = vec![false; program.len()];
    reached[0] = true;
    for (at, instruction) in program.iter().enumerate() {
        assert!(reached[at], "nothing leads to instruction {at}");
        let mut reach = |skip: usize| {
            let to = reached.get_mut(at + 1 + skip);
            *to.unwrap_or_else(|| panic!("instruction {at} leads out of the program")) = true;
        };
        match instruction.code {
            code::LOAD => {
                assert!(instruction.k.is_multiple_of(4) && instruction.k < 64);
                reach(0);
            }
            code::AND => reach(0),
            code::JUMP => reach(instruction.k as usize),
            code::IF_EQUAL | code::IF_FROM | code::IF_BITS => {
                reach(instruction.jt.into());
                reach(instruction.jf.into());
            }
            code::RETURN => {}
            other => panic!("instruction {at}: code {other:#x}"),
        }
    }
}
