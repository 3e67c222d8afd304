//! What was counted of a run's network, for whoever reads `--json` and for the ledger.

use std::collections::BTreeMap;

use egress::Counts;
use egress::control::Used;
use egress::published::Port;
use ledger::Draft;
use serde_json::json;

/// Why something was refused, in few words.
#[derive(Clone, Copy)]
pub(super) enum Cause {
    /// A packet to an address that no rule lists, or that is no connection.
    Packet,
    /// A connection or request that the rules refuse, or that cannot be judged.
    Rule,
    /// There is no proxy.
    Proxy,
}

/// What somebody on this machine did with one published port.
#[derive(Clone, Copy, Default)]
struct Entered {
    connections: u64,
    entered: u64,
    left: u64,
}

/// What was counted.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) allowed: u64,
    /// Of these, what was looked into.
    pub(super) inspected: u64,
    /// What must not happen.
    pub(super) findings: u64,
    /// By [`Cause`].
    refused: [u64; 3],
    pub(super) used: Used,
    names: Counts,
    entered: BTreeMap<u16, Entered>,
    published: Vec<Port>,
}

impl Tally {
    /// Of a run that publishes these.
    pub(super) fn of(published: Vec<Port>) -> Self {
        Self { published, ..Self::default() }
    }

    /// One more refusal.
    pub(super) fn refused(&mut self, cause: Cause) {
        let place = match cause {
            Cause::Packet => 0,
            Cause::Rule => 1,
            Cause::Proxy => 2,
        };
        if let Some(count) = self.refused.get_mut(place) {
            *count += 1;
        }
    }

    /// Somebody was connected to a port inside.
    pub(super) fn entered(&mut self, port: u16, entered: u64, left: u64) {
        let one = self.entered.entry(port).or_default();
        *one = Entered {
            connections: one.connections + 1,
            entered: one.entered + entered,
            left: one.left + left,
        };
    }

    /// The last word of whoever answers for names.
    pub(super) fn end(&mut self, names: Counts) {
        self.names = names;
    }

    /// The same in an entry of the ledger.
    pub(super) fn entry(&self, draft: Draft) -> Draft {
        let Used { connections, open: _, requests, sent, received, over } = self.used;
        let numbers = [
            ("allowed", self.allowed),
            ("names_answered", self.names.named),
            ("names_refused", self.names.unlisted),
            ("questions_strange", self.names.strange),
            ("connections", connections),
            ("requests", requests),
            ("sent", sent),
            ("received", received),
            ("over_limit", over),
        ];
        let draft =
            numbers.into_iter().fold(draft, |draft, (name, number)| draft.with(name, number.to_string()));
        self.entered.iter().fold(draft, |draft, (port, one)| {
            let Entered { connections, entered, left } = one;
            let told = format!("{connections} connections, {entered} bytes in, {left} bytes out");
            draft.with(format!("published_{port}"), told)
        })
    }

    /// The sums so far, by verdict and cause, for whoever started the run.
    pub(super) fn sums(&self, names: Counts) -> serde_json::Value {
        let Used { connections, open, requests, sent, received, over } = self.used;
        let [packet, rule, proxy] = self.refused;
        json!({
            "inspected": self.inspected, "passed": self.allowed.saturating_sub(self.inspected), "findings": self.findings,
            "name": names.unlisted, "packet": packet, "rule": rule, "limit": over, "proxy": proxy,
            "connections": connections, "open": open, "requests": requests, "sent": sent, "received": received,
        })
    }

    /// The same for `--json`.
    pub(super) fn value(&self) -> serde_json::Value {
        let Used { connections, open, requests, sent, received, over } = self.used;
        let [packet, rule, proxy] = self.refused;
        let published: Vec<_> = self
            .published
            .iter()
            .map(|port| {
                let Entered { connections, entered, left } =
                    self.entered.get(&port.inside).copied().unwrap_or_default();
                json!({
                    "port": port.inside, "at": port.outside, "connections": connections, "bytes_in": entered,
                    "bytes_out": left,
                })
            })
            .collect();
        json!({
            "connections": connections, "open": open, "requests": requests, "sent": sent, "received": received,
            "names_answered": self.names.named,
            "refused": {
                "name": self.names.unlisted, "packet": packet, "rule": rule, "limit": over, "proxy": proxy,
            },
            "published": published,
        })
    }
}
