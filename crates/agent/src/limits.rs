//! Every number that bounds the agent: what it is without a word, and how far a configuration may raise it.
//!
//! One table is the source of names, defaults and ceilings. A configuration above a ceiling is refused, not cut.

use serde_json::{Map, Value};

macro_rules! limits {
    ($($(#[doc = $about:literal])+ $name:ident = $usual:literal, $most:literal;)+) => {
        /// The bounds that hold.
        #[derive(Clone, Debug)]
        pub(crate) struct Limits {
            $($(#[doc = $about])+ pub(crate) $name: u64,)+
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $usual,)+ }
            }
        }

        impl Limits {
            /// Name, usual value, highest value.
            #[cfg(test)]
            pub(crate) const TABLE: &[(&str, u64, u64)] = &[$((stringify!($name), $usual, $most),)+];

            /// The usual ones, with those that are named changed.
            pub(crate) fn changed(by: &Map<String, Value>) -> Result<Self, String> {
                let mut limits = Self::default();
                for (name, value) in by {
                    let value = value.as_u64().ok_or_else(|| format!("limit `{name}` is no whole number"))?;
                    let (place, most) = match name.as_str() {
                        $(stringify!($name) => (&mut limits.$name, $most),)+
                        _ => return Err(format!("there is no limit `{name}`")),
                    };
                    if value == 0 || value > most {
                        return Err(format!("limit `{name}` is 1 to {most}"));
                    }
                    *place = value;
                }
                Ok(limits)
            }
        }
    };
}

limits! {
    /// Longest file that is read.
    read_bytes = 65_536, 262_144;
    /// Longest file that is written, edited or patched.
    write_bytes = 65_536, 65_536;
    /// Hits of one search.
    search_hits = 50, 50;
    /// Characters of one hit.
    search_chars = 200, 200;
    /// Time of one search.
    search_ms = 10_000, 60_000;
    /// Entries of one list.
    list_entries = 500, 5_000;
    /// Arguments of a program.
    shell_args = 8, 32;
    /// Characters of one argument.
    shell_arg_chars = 128, 4_096;
    /// Bytes that are kept of each of a program's streams.
    shell_bytes = 8_192, 65_536;
    /// Time of a program.
    shell_ms = 30_000, 120_000;
    /// Bytes that are kept of each stream of code.
    code_bytes = 65_536, 65_536;
    /// Time of code.
    code_ms = 30_000, 30_000;
    /// Programs in the background at once.
    processes = 8, 8;
    /// Bytes that are kept of what one of them says.
    process_bytes = 524_288, 524_288;
    /// Time of one of them.
    process_ms = 3_600_000, 86_400_000;
    /// Time of a fetch.
    fetch_ms = 10_000, 60_000;
    /// Bytes of a page, after decompression.
    fetch_bytes = 1_048_576, 1_048_576;
    /// Bytes of any tool's answer that go to the model.
    output_bytes = 65_536, 262_144;
    /// Time until somebody who is asked must have answered.
    ask_ms = 3_600_000, 86_400_000;
    /// Characters of a prompt.
    prompt_chars = 256_000, 256_000;
    /// Characters of history that go to the model; older tool output is left out first.
    context_chars = 600_000, 4_000_000;
    /// Calls of the model in one turn.
    iterations = 20, 20;
    /// Tokens of one answer.
    answer_tokens = 8_192, 128_000;
    /// Time until the first byte of an answer.
    first_byte_ms = 30_000, 30_000;
    /// Time between two pieces of an answer.
    silence_ms = 60_000, 300_000;
    /// Time of a whole answer.
    answer_ms = 600_000, 1_800_000;
    /// Bytes of a whole answer.
    answer_bytes = 16_777_216, 67_108_864;
    /// Tries of one provider for one answer.
    attempts = 3, 3;
    /// The first wait between tries; it doubles.
    backoff_ms = 1_000, 10_000;
    /// The wait after "too many requests" that names none.
    rate_wait_ms = 10_000, 60_000;
    /// The longest named wait that is waited for; beyond it the next provider is asked.
    rate_wait_most_ms = 60_000, 600_000;
    /// Failures in a row that open a provider's breaker.
    breaker_failures = 5, 5;
    /// Time that it stays open.
    breaker_open_ms = 30_000, 300_000;
    /// Probes at once when it is half open.
    breaker_probes = 1, 3;
    /// Time of a connection being made, and of a probe's first byte.
    operation_ms = 10_000, 10_000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_passes_at_its_ceiling_and_no_further() {
        for (name, usual, most) in Limits::TABLE {
            assert!(usual <= most, "{name}");
            let given = |value: u64| Map::from_iter([((*name).to_owned(), Value::from(value))]);
            assert!(Limits::changed(&given(*most)).is_ok(), "{name}");
            assert!(Limits::changed(&given(most + 1)).is_err(), "{name}");
            assert!(Limits::changed(&given(0)).is_err(), "{name}");
        }
        let unknown = Map::from_iter([("read_byte".to_owned(), Value::from(1))]);
        assert_eq!(Limits::changed(&unknown).unwrap_err(), "there is no limit `read_byte`");
    }
}
