//! Attacks from inside a sandbox: one file per row of the specification, each must fail closed.
//!
//! Every attack runs against `palisade run` on this kernel, as root and as a user that nobody is. A test says what
//! came of it inside and that the host is as it was, and it has a control: with the layer off, or with no sandbox at
//! all, the same attack gets through. `attacker` performs attacks, `bare` makes sandboxes that lack a wall, and
//! `bystanders` stand beside every attack. `attempts.py` is a script that knows nothing of any of this.

mod bystanders;
mod kit;
mod programs;
mod snapshot;
mod terminal;

mod attempts;
mod c01;
mod f01;
mod f02;
mod f03;
mod f04;
mod f05;
mod f06;
mod f07;
mod f08;
mod f09;
mod f10;
mod held;
mod n04;
mod p01;
mod p02;
mod p03;
mod p04;
mod p05;
mod p06;
mod p07;
mod p08;
mod p09;
mod p10;
mod p11;
mod p12;
mod p13;

mod sbx_calls;
mod sbx_end;
mod sbx_inside;
mod sbx_terminal;
