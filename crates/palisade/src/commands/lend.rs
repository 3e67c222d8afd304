//! Secrets for one run: the command gets words that stand for them, and the proxy puts them in.
//!
//! Flow: what was typed, or what is known of the command -> values from the caller's environment or standard input, or lent by the
//! daemon from its vault -> words of the same shape -> loans. Invariant: a value goes to the proxy and to nobody else; a secret without a
//! host to go to is not lent.

mod input;
mod vault;
mod words;

use agents::{Agent, Bound, Catalog};
use egress::control::{Loan, Value};
use rules::Rule;
use zeroize::Zeroizing;

use self::input::Input;
use self::vault::Borrowed;
pub(super) use self::vault::{Lines, Vault};
pub(super) use self::words::Words;
use crate::failure::Failure;

/// The variable whose secret is never sent, and signs instead.
const SIGNING: &str = "AWS_SECRET_ACCESS_KEY";
/// What is said of a secret that has no host; in words that are not taken for a secret with its value.
const NOWHERE: &str = "nothing says where it goes; say it behind the name, as `NAME=HOST[:PORT]`";
/// Where a secret of an agent goes.
fn places_of(bound: &Bound) -> Places {
    bound.hosts.iter().map(|host| (host.clone(), 443)).collect()
}

/// Whether a model of this agent is at one of these hosts.
fn is_asked_at(agent: &Agent, hosts: &[(String, u16)]) -> bool {
    let own = |host: &String| agent.secrets.iter().any(|bound| bound.hosts.contains(host));
    hosts.iter().any(|(host, _)| own(host))
}

/// Where a value is to come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// The caller's environment; if it is not there, the daemon's vault.
    Anywhere,
    Environment,
    Vault,
    /// Standard input.
    Input,
}

/// What was typed: `[env:|vault:|stdin:]NAME[=HOST[:PORT][/PATH]]`.
#[derive(Clone, Copy, Debug)]
struct Typed<'a> {
    from: From,
    name: &'a str,
    host: Option<&'a str>,
}

impl<'a> Typed<'a> {
    fn of(text: &'a str) -> Self {
        let (text, host) = text.split_once('=').map_or((text, None), |(text, host)| (text, Some(host)));
        let known = [("env:", From::Environment), ("vault:", From::Vault), ("stdin:", From::Input)];
        let said = known.into_iter().find_map(|(word, from)| Some((from, text.strip_prefix(word)?)));
        let (from, name) = said.unwrap_or((From::Anywhere, text));
        Self { from, name, host }
    }
}

/// Hosts and ports that a secret may go to.
type Places = Vec<(String, u16)>;

fn wrong(name: &str, why: &str) -> Failure {
    Failure::Sandbox(format!("cannot lend `{name}`, because {why}"), 125)
}

/// The value that a variable of the caller has.
fn set_here(name: &str) -> Result<Option<Zeroizing<String>>, Failure> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(Zeroizing::new(value)).filter(|value| !value.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(wrong(name, "its value is no text")),
    }
}

/// Where what is known of agents sends a secret, and the presets that go with it.
fn known_places(catalog: &Catalog, name: &str) -> Option<(Bound, Vec<String>)> {
    catalog.iter().find_map(|agent| {
        let bound = agent.secrets.iter().find(|bound| bound.name == name)?.clone();
        Some((bound, agent.presets.clone()))
    })
}

/// What is lent, and the rules that let it go where it is bound to.
#[derive(Debug, Default)]
pub(super) struct Lending {
    pub(super) loans: Vec<Loan>,
    pub(super) rules: Vec<Rule>,
    pub(super) presets: Vec<String>,
    /// What the daemon lends for as long as it holds these.
    pub(super) lines: Lines,
    catalog: Catalog,
    words: Words,
}

impl Lending {
    /// `typed` are `[env:|vault:|stdin:]NAME[=HOST[:PORT][/PATH]]`; `agent` is what is known of the command, whose secrets are lent if they
    /// are there.
    pub(super) fn of(
        typed: &[String],
        catalog: &Catalog,
        agent: Option<&Agent>,
        vault: &Vault<'_>,
        words: Words,
    ) -> Result<Self, Failure> {
        let mut lending = Self { catalog: catalog.clone(), words, ..Self::default() };
        let mut input = Input::default();
        for text in typed {
            lending.typed(Typed::of(text), vault, &mut input)?;
        }
        for bound in agent.into_iter().flat_map(|agent| &agent.secrets) {
            if lending.loans.iter().any(|loan| loan.name == bound.name) {
                continue;
            }
            match set_here(&bound.name)? {
                Some(value) => lending.lend(&bound.name, value, places_of(bound), &bound.paths)?,
                None => lending.offered(bound, vault),
            }
        }
        Ok(lending)
    }

    /// What nobody typed, if the vault has it for these hosts. Without it the command is run all the same.
    fn offered(&mut self, bound: &Bound, vault: &Vault<'_>) {
        let lent = vault.offers(&bound.name, places_of(bound)).and_then(|places| {
            let Some(places) = places else { return Ok(()) };
            let borrowed = vault.borrow(&bound.name, &places)?;
            self.borrowed(&bound.name, borrowed, places, &bound.paths)
        });
        if let Err(failure) = lent {
            crate::output::tell(&failure.to_string());
        }
    }

    fn typed(
        &mut self,
        Typed { from, name, host }: Typed<'_>,
        vault: &Vault<'_>,
        input: &mut Input,
    ) -> Result<(), Failure> {
        let rule = host.map(|host| bound_to(name, host)).transpose()?;
        let (rule, mut paths) = rule.unzip();
        let mut places = rule
            .as_ref()
            .map(|rule| rule.ports.iter().map(|port| (rule.host.clone(), *port)).collect::<Places>());
        self.rules.extend(rule);
        if places.is_none()
            && let Some((known, presets)) = known_places(&self.catalog, name)
        {
            places = Some(places_of(&known));
            paths = Some(known.paths);
            self.presets.extend(presets);
        }
        let (is_said, paths) = (places.is_some(), paths.unwrap_or_default());
        let value = match from {
            From::Vault => None,
            From::Environment | From::Anywhere => set_here(name)?,
            From::Input => {
                let said = input.of(name);
                Some(said.map_err(|error| {
                    wrong(name, &format!("its value did not come on standard input: {error}"))
                })?)
            }
        };
        if let Some(value) = value {
            let Some(places) = places else {
                return Err(wrong(name, NOWHERE));
            };
            return self.lend(name, value, places, &paths);
        }
        if from == From::Environment {
            return Err(wrong(name, "it is not set here; set it, and run this again"));
        }
        let borrowed = vault.places(name, places, host.is_some()).and_then(|places| {
            let borrowed = vault.borrow(name, &places)?;
            Ok((borrowed, places))
        });
        let (borrowed, places) = borrowed.map_err(|failure| match from {
            From::Vault => failure,
            From::Anywhere | From::Environment | From::Input => vault::not_here_either(name, failure),
        })?;
        // Where only the vault says where it goes, it is also let there.
        for (host, port) in places.iter().filter(|_| !is_said) {
            let label = Some(format!("lent for {name}"));
            let access = Some(rules::Access::Inspect);
            self.rules.push(Rule { access, label, ports: vec![*port], ..Rule::new(host.clone()) });
        }
        self.borrowed(name, borrowed, places, &paths)
    }

    fn borrowed(
        &mut self,
        name: &str,
        borrowed: Borrowed,
        places: Places,
        paths: &[String],
    ) -> Result<(), Failure> {
        let Borrowed { value, line } = borrowed;
        self.lend(name, value, places, paths)?;
        self.lines.hold(name, line);
        Ok(())
    }

    /// Lends a value to these hosts, perhaps for some paths only.
    fn lend(
        &mut self,
        name: &str,
        mut value: Zeroizing<String>,
        places: Places,
        paths: &[String],
    ) -> Result<(), Failure> {
        // It may come back in what others say.
        crate::output::learn(&value);
        if value.len() < 8 || value.chars().any(char::is_control) {
            let why = "its value is too short, or has a line end or another control character in it";
            return Err(wrong(name, why));
        }
        let in_content = !self.catalog.iter().any(|agent| is_asked_at(agent, &places));
        let loan = match self.loans.iter_mut().find(|loan| loan.name == name) {
            Some(before) if before.value.reveal() != value.as_str() => {
                return Err(wrong(
                    name,
                    "its value here and its value in the vault differ; lend one of them",
                ));
            }
            Some(before) => before,
            None => {
                let word = self.words.of(name, &value).map_err(|error| wrong(name, &error.to_string()))?;
                let value = Value::new(std::mem::take(&mut *value));
                let (name, signs) = (name.to_owned(), name == SIGNING);
                self.loans.push_mut(Loan { name, word, value, signs, in_content: true, ..Loan::default() })
            }
        };
        loan.in_content &= in_content;
        match paths {
            [] => loan.hosts.extend(places),
            paths => loan.paths.extend(places.into_iter().map(|(host, port)| Rule {
                ports: vec![port],
                paths: Some(paths.to_vec()),
                ..Rule::new(host)
            })),
        }
        Ok(())
    }
}

/// The rule for the one host that was typed, and the paths there that the secret is bound to, if some were.
fn bound_to(name: &str, typed: &str) -> Result<(Rule, Vec<String>), Failure> {
    let cannot =
        |why: String| Failure::Sandbox(format!("cannot lend `{name}` to `{typed}`, because {why}"), 125);
    let (host, path) = typed.find('/').map_or((typed, None), |at| {
        let (host, path) = typed.split_at(at);
        (host, Some(path.to_owned()))
    });
    let rule = rules::Rules::allowing(host).map_err(|what| cannot(what.to_string()))?;
    if rule.host.contains('*') {
        return Err(cannot("a secret goes to one host; name it without `*`".into()));
    }
    let paths: Vec<String> = path.into_iter().collect();
    if !paths.is_empty() {
        // The same patterns as in rules.
        let bound = Rule { paths: Some(paths.clone()), ..rule.clone() };
        rules::Rules::compile(vec![bound]).map_err(|faults| cannot(faults.to_string()))?;
    }
    let label = Some(format!("lent for {name}"));
    Ok((Rule { access: Some(rules::Access::Inspect), label, ..rule }, paths))
}

/// Decoys in these variables: what looks like a key, stands for nothing, and may go nowhere.
pub(super) fn decoys(names: &[String], loans: &mut Vec<Loan>) -> Result<(), Failure> {
    for name in names {
        let wrong = |why: &str| Failure::Sandbox(format!("--decoy {name}: {why}"), 125);
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !name.starts_with(|first: char| first.is_ascii_digit());
        if !is_name || name.len() > 128 {
            return Err(wrong("expected the name of a variable"));
        }
        if loans.iter().any(|loan| loan.name == *name) {
            return Err(wrong("a secret is lent in this variable"));
        }
        let word = decoy_for(name).map_err(|error| wrong(&error.to_string()))?;
        let name = name.clone();
        loans.push(Loan { name, word, is_decoy: true, in_content: true, ..Loan::default() });
    }
    Ok(())
}

/// What a thief would take for the key that a variable of this name holds.
fn decoy_for(name: &str) -> Result<String, getrandom::Error> {
    let is = |part: &str| name.to_ascii_uppercase().contains(part);
    let (begins, length) = match () {
        () if is("GITHUB") || is("GH_TOKEN") => ("ghp_", 36),
        () if is("NPM") => ("npm_", 36),
        () if is("ANTHROPIC") => ("sk-ant-api03-", 95),
        () if is("OPENAI") => ("sk-proj-", 48),
        () if is("STRIPE") => ("sk_live_", 24),
        () => ("", 40),
    };
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes)?;
    let letter =
        |byte: u8| char::from(LETTERS.get(usize::from(byte) % LETTERS.len()).copied().unwrap_or(b'x'));
    Ok(begins.chars().chain(bytes.into_iter().map(letter)).collect())
}
