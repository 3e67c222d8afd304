//! SEC-16: secrets of every family, planted in every input of the product, come out nowhere.
//!
//! `secrets` makes them, `search` looks for them and for what encoding or cutting makes of them, `daemon` drives the real
//! daemon by HTTP and by the client, `described` tries every field of every body that its description has, `sessions` has an agent at work, `runs` drives `palisade run`, `network` what goes to the network and the rules of that, `commands` every place of every command, `outlets` looks for homes and for what acts on terminals
//! (SEC-14). Nothing here is a secret of anybody. Where a secret is expected, it is also given as base64, hex and URL-encoded.
//!
//! What keeps a value by nature, and why that is no leak:
//! * the argv that a caller typed, in the process that they started and in its forks: only that caller chose it;
//! * the argv and the `--env` of a sandboxed command: giving them to it is what was asked for;
//! * files that a caller wrote, among them the profiles and policies given to us here: they are left as they are;
//! * the name of the directory that a person works in: it is needed to find it again;
//! * encoded text in a field for text: a person may write any base64, and what was never a secret here is not known as one.

mod commands;
mod daemon;
mod described;
mod network;
mod outlets;
mod runs;
mod search;
mod secrets;
mod sessions;
