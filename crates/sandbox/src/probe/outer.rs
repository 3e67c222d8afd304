//! A filter as an outer container has one, for tests: chosen calls are refused with chosen errors.
//!
//! It only narrows, and only this process and what comes of it.

use std::io;

use crate::filter::Instruction;
use crate::sys;

/// Makes these calls, by number, fail with these error numbers from now on.
///
/// # Errors
/// When the kernel takes no filter.
#[doc(hidden)]
pub fn refuse_calls(calls: &[(u32, u16)]) -> io::Result<()> {
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    let mut program = vec![Instruction { code: LOAD, jt: 0, jf: 0, k: 0 }];
    for (number, error) in calls {
        program.push(Instruction { code: EQUAL, jt: 0, jf: 1, k: *number });
        program.push(Instruction { code: RETURN, jt: 0, jf: 0, k: ERRNO | u32::from(*error) });
    }
    program.push(Instruction { code: RETURN, jt: 0, jf: 0, k: ALLOW });
    rustix::thread::set_no_new_privs(true)?;
    sys::load_filter(&program)
}
