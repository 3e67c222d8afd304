//! Forty secrets, made for this test and good for nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// One of them.
#[derive(Clone, Debug)]
pub struct Planted {
    /// What kind it is, for messages.
    pub family: &'static str,
    /// As it is written somewhere: with the words around it by which it is known.
    pub text: String,
    /// The parts that nobody may see.
    pub values: Vec<String>,
}

impl Planted {
    /// The value, if that by itself looks like a secret.
    pub fn alone(&self) -> Option<&str> {
        self.values.first().map(String::as_str).filter(|value| *value == self.text)
    }

    /// The same as base64, hex and URL-encoded text: what was encoded before it was planted.
    pub fn encoded(&self) -> Vec<(&'static str, Self)> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
        let escaped = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
        let forms = [
            ("base64", STANDARD.encode(&self.text)),
            ("hex", hex::encode(&self.text)),
            ("URL", self.text.bytes().map(escaped).collect()),
        ];
        forms.into_iter().map(|(form, text)| (form, Self { text, ..self.clone() })).collect()
    }

    /// On one line, as a name or an argument.
    pub fn line(&self) -> String {
        self.text.replace('\n', " ")
    }
}

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX: &str = "0123456789abcdef";
const DIGITS: &str = "0123456789";

/// The same characters every time, and others for every seed.
struct Dice(u64);

impl Dice {
    fn take(&mut self, length: usize, alphabet: &str) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..length)
            .map(|_| {
                self.0 =
                    self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                letters[usize::try_from(self.0 >> 33).unwrap() % letters.len()]
            })
            .collect()
    }

    /// Lines of a key.
    fn lines(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.take(64, BASE64)).collect()
    }
}

/// All forty.
pub fn all() -> Vec<Planted> {
    let mut d = Dice(0x0070_616c_6973_6164);
    let mut found: Vec<Planted> = Vec::new();
    let mut plain = |family, value: String| {
        found.push(Planted { family, text: value.clone(), values: vec![value] });
    };
    for prefix in ["ghp_", "gho_", "ghs_"] {
        plain("github", format!("{prefix}{}", d.take(36, ALNUM)));
    }
    plain("github, fine-grained", format!("github_pat_{}_{}", d.take(22, ALNUM), d.take(59, ALNUM)));
    plain("gitlab", format!("glpat-{}", d.take(20, ALNUM)));
    plain("aws id", format!("AKIA{}", d.take(16, UPPER)));
    plain("aws session id", format!("ASIA{}", d.take(16, UPPER)));
    plain("anthropic", format!("sk-ant-api03-{}", d.take(93, ALNUM)));
    plain("openai, project", format!("sk-proj-{}", d.take(48, ALNUM)));
    plain("openai", format!("sk-{}T3BlbkFJ{}", d.take(20, ALNUM), d.take(20, ALNUM)));
    plain("google", format!("AIza{}", d.take(35, ALNUM)));
    plain("google, access", format!("ya29.{}", d.take(60, ALNUM)));
    for prefix in ["xoxb", "xoxp"] {
        let value = format!("{prefix}-{}-{}-{}", d.take(12, DIGITS), d.take(12, DIGITS), d.take(24, ALNUM));
        plain("slack", value);
    }
    plain("slack, app", format!("xapp-1-A{}-{}-{}", d.take(10, UPPER), d.take(13, DIGITS), d.take(64, HEX)));
    for prefix in ["sk_live_", "rk_live_"] {
        plain("stripe", format!("{prefix}{}", d.take(24, ALNUM)));
    }
    plain("npm", format!("npm_{}", d.take(36, ALNUM)));
    plain("pypi", format!("pypi-AgEIcHlwaS5vcmc{}", d.take(70, ALNUM)));
    plain("docker", format!("dckr_pat_{}", d.take(27, ALNUM)));
    plain("hugging face", format!("hf_{}", d.take(34, ALNUM)));
    plain("sendgrid", format!("SG.{}.{}", d.take(22, ALNUM), d.take(43, ALNUM)));
    plain("discord", format!("MT{}.G{}.{}", d.take(24, ALNUM), d.take(5, ALNUM), d.take(38, ALNUM)));
    let token = format!("eyJhbGciOiJIUzI1NiJ9.eyJ{}.{}", d.take(60, ALNUM), d.take(43, ALNUM));
    plain("jwt", token);
    let mut around = |family, before: &str, value: String, after: &str| {
        found.push(Planted { family, text: format!("{before}{value}{after}"), values: vec![value] });
    };
    around("aws secret", "aws_secret_access_key = ", d.take(40, BASE64), "");
    let hook = format!("T{}/B{}/{}", d.take(8, UPPER), d.take(8, UPPER), d.take(24, ALNUM));
    around("slack, webhook", "https://hooks.slack.com/services/", hook, "");
    around("twilio", "TWILIO_AUTH_TOKEN=", d.take(32, HEX), "");
    let account = "DefaultEndpointsProtocol=https;AccountName=demo;AccountKey=";
    around("azure", account, format!("{}==", d.take(86, ALNUM)), ";EndpointSuffix=core.windows.net");
    around("database", "postgres://app:", d.take(22, ALNUM), "@db.example/app");
    around("database, srv", "mongodb+srv://app:", d.take(22, ALNUM), "@cluster.example/app");
    around("address", "https://ana:", d.take(22, ALNUM), "@forge.example/a/b.git");
    around("basic", "Authorization: Basic ", format!("{}==", d.take(30, ALNUM)), "");
    around("bearer", "Authorization: Bearer ", d.take(40, ALNUM), "");
    around("json", "{\"password\": \"", d.take(20, ALNUM), "\"}");
    around("variable", "MY_TOKEN=", d.take(24, ALNUM), "");
    around("cookie", "Cookie: session=", d.take(32, ALNUM), "");
    around("header", "X-Api-Key: ", d.take(32, ALNUM), "");
    let lines = d.lines(6);
    let whole = |begin: &str, lines: &[String], end: &str| {
        format!("-----BEGIN {begin}-----\n{}{end}", lines.join("\n"))
    };
    let text = whole("PRIVATE KEY", &lines, "\n-----END PRIVATE KEY-----\n");
    found.push(Planted { family: "pem", text, values: lines });
    let lines = d.lines(4);
    let text = whole("RSA PRIVATE KEY", &lines, "");
    found.push(Planted { family: "pem, cut", text, values: lines });
    let lines = d.lines(5);
    let text = whole("PGP PRIVATE KEY BLOCK", &lines, "\n-----END PGP PRIVATE KEY BLOCK-----\n");
    found.push(Planted { family: "pgp", text, values: lines });
    assert_eq!(found.len(), 40);
    found
}
