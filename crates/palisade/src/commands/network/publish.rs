//! Ports of a sandbox that a person makes reachable on this machine.

use egress::published::{Doors, Port, Published};

use crate::failure::Failure;

/// The most ports of one run.
const MOST: usize = 16;

/// Listens at everything that was asked for, before anything is started.
pub(super) fn doors(asked: &[String]) -> Result<Doors, Failure> {
    let wrong = |text: String| Failure::Sandbox(text, 125);
    if asked.len() > MOST {
        return Err(wrong(format!("--publish: a run has at most {MOST} published ports")));
    }
    let mut all: Vec<Published> = Vec::new();
    for text in asked {
        let port: Port = text.parse().map_err(|what| wrong(format!("--publish {text}: {what}")))?;
        if all.iter().any(|other| other.port().outside == port.outside) {
            return Err(wrong(format!("--publish {text}: port {} is there twice", port.outside)));
        }
        let opened = Published::open(port).map_err(|error| {
            let free = match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    format!("is taken; name another one with `--publish HOSTPORT:{}`", port.inside)
                }
                _ => format!("cannot be listened at: {error}"),
            };
            wrong(format!("--publish {text}: port {} of this machine {free}", port.outside))
        })?;
        all.push(opened);
    }
    Ok(Doors::new(all))
}

/// What is published, for the receipt.
pub(super) fn words(ports: &[Port]) -> Vec<String> {
    ports.iter().map(ToString::to_string).collect()
}
