//! What the filter of system calls answers to one call: the loaded program itself is asked, not its tables.
//!
//! Invariant: a program that is not understood refuses nothing here, so that it is never blamed without proof.
//! Not here: the reason in words ([`crate::filter::why_refused`]).

use crate::filter::Instruction;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_FROM: u16 = 0x35;
const IF_BITS: u16 = 0x45;
const RETURN: u16 = 0x06;

const X86_64: u32 = 0xc000_003e;
const ERRNO: u32 = 0x0005_0000;
const ACTION: u32 = 0xffff_0000;

/// The error that the program answers with; none if it lets the call through.
pub(super) fn refused_with(program: &[Instruction], number: u32, arguments: &[u64; 6]) -> Option<i32> {
    let (mut at, mut held) = (0usize, 0u32);
    // Jumps only lead forward, so it ends.
    while let Some(Instruction { code, jt, jf, k }) = program.get(at).copied() {
        at += 1;
        let skip = |holds: bool| usize::from(if holds { jt } else { jf });
        match code {
            LOAD => held = word(number, arguments, k)?,
            AND => held &= k,
            JUMP => at += usize::try_from(k).ok()?,
            IF_EQUAL => at += skip(held == k),
            IF_FROM => at += skip(held >= k),
            IF_BITS => at += skip(held & k != 0),
            RETURN if k & ACTION == ERRNO => return i32::try_from(k & !ACTION).ok(),
            _ => return None,
        }
    }
    None
}

/// Four bytes of what the kernel shows to a filter.
fn word(number: u32, arguments: &[u64; 6], offset: u32) -> Option<u32> {
    match offset {
        0 => Some(number),
        4 => Some(X86_64),
        _ => {
            let place = offset.checked_sub(16)?;
            let argument = arguments.get(usize::try_from(place / 8).ok()?)?;
            u32::try_from(if place % 8 == 0 { argument & 0xffff_ffff } else { argument >> 32 }).ok()
        }
    }
}
