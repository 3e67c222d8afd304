//! How a secret is written in content: as whoever reads that content reads it back.

use egress::writings::escaped;

/// How content writes what stands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The fields of a form, escaped as addresses are.
    Form,
    /// Strings of JSON.
    Json,
    /// As it is.
    Plain,
}

impl Written {
    /// In content of this kind (a `Content-Type`, or nothing).
    pub(crate) fn of(kind: &[u8], content: &[u8]) -> Self {
        let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
        match kind.trim_ascii().to_ascii_lowercase().as_slice() {
            b"application/x-www-form-urlencoded" => Self::Form,
            b"application/json"
            | b"application/json-seq"
            | b"application/jsonl"
            | b"application/ndjson"
            | b"application/x-ndjson"
            | b"text/json" => Self::Json,
            kind if kind.ends_with(b"+json") || kind.starts_with(b"application/x-amz-json-") => Self::Json,
            // What clients call content of which they were told nothing.
            b"" | b"text/plain" if is_json(content) => Self::Json,
            _ => Self::Plain,
        }
    }

    /// A text, written so.
    pub(super) fn write(self, text: &str) -> Vec<u8> {
        match self {
            Self::Form => escaped(text).into_bytes(),
            Self::Json => json_text(text),
            Self::Plain => text.as_bytes().to_vec(),
        }
    }
}

/// Whether something is JSON that has strings in it.
fn is_json(content: &[u8]) -> bool {
    let begins = matches!(content.trim_ascii_start(), [b'{' | b'[' | b'"', ..]);
    begins && serde_json::from_slice::<serde_json::Value>(content).is_ok()
}

/// A text as it stands in a string of JSON, without the quotes around it: the word stands within some.
fn json_text(text: &str) -> Vec<u8> {
    let text = serde_json::Value::String(text.to_owned()).to_string();
    text.get(1..text.len() - 1).unwrap_or_default().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use egress::control::{Loan, Value};

    use super::super::tests::{WORD, host};
    use super::super::{Lent, Towards};
    use super::Written;

    const QUOTED: &str = "se\"cret\\value&with=signs";

    fn filled(kind: &str, content: &str) -> String {
        let loan = Loan {
            name: "KEY".into(),
            word: WORD.into(),
            value: Value::new(QUOTED.into()),
            hosts: vec![("api.test".to_owned(), 443)],
            in_content: true,
            ..Loan::default()
        };
        let (lent, host) = (Lent::new(vec![loan]), host("api.test"));
        let towards = Towards { host: &host, port: 443, path: "/", is_private: true };
        let written = Written::of(kind.as_bytes(), content.as_bytes());
        let filled = lent.fill_content(content.as_bytes(), written, towards).unwrap().unwrap();
        String::from_utf8(filled.to_vec()).unwrap()
    }

    #[test]
    fn egr_13_content_is_filled_as_its_kind_is_written() {
        let json = format!("{{\"key\":\"{WORD}\"}}");
        for kind in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/vnd.api+json",
            "application/x-amz-json-1.1",
            "text/json",
            "application/x-ndjson",
            // Clients that are told nothing call it so.
            "",
            "text/plain;charset=UTF-8",
        ] {
            let parsed: serde_json::Value = serde_json::from_str(&filled(kind, &json)).unwrap();
            assert_eq!(parsed["key"], QUOTED, "{kind}");
        }
        let form = filled("application/x-www-form-urlencoded; charset=utf-8", &format!("a=1&key={WORD}"));
        assert_eq!(form, "a=1&key=se%22cret%5Cvalue%26with%3Dsigns");
    }

    #[test]
    fn egr_13_content_that_is_neither_json_nor_a_form_has_the_secret_as_it_is() {
        let part = format!("--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\n{WORD}\r\n--x--\r\n");
        for (kind, content) in [
            ("text/plain", format!("key is {WORD}.")),
            ("", format!("{WORD}\n")),
            ("text/plain", format!("[default]\nkey = {WORD}\n")),
            ("application/octet-stream", format!("{{\"key\":\"{WORD}\"}}")),
            ("application/jsonpath", format!("$.{WORD}")),
            ("application/yaml", format!("key: {WORD}\n")),
            ("multipart/form-data; boundary=x", part),
        ] {
            assert_eq!(filled(kind, &content), content.replace(WORD, QUOTED), "{kind}");
        }
    }
}
