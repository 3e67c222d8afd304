//! Every family of the specification, by name, with what makes one of it.

use crate::dice::{ALNUM, BASE64, BASE64_URL, Dice, HEX, LOWER, UPPER};
use crate::sample::hidden;
use crate::secrets as make;

/// What sort of thing a family is: that decides where it can stand.
pub(crate) enum Make {
    /// Known by its own shape, wherever it stands.
    Token(fn(&mut Dice) -> String),
    /// Known only by how random it is. Not in paths and headers, where ids are.
    Run(fn(&mut Dice) -> String),
    /// A URL or connection string with a secret in it.
    Url(fn(&mut Dice) -> String),
    /// Secret by the name it was given: name in snake case, value.
    Named(fn(&mut Dice) -> (String, String)),
    /// A header: name, value.
    Header(fn(&mut Dice) -> (String, String)),
    /// Many lines.
    Block(fn(&mut Dice) -> String),
}

pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) make: Make,
}

const fn family(name: &'static str, make: Make) -> Family {
    Family { name, make }
}

pub(crate) const FAMILIES: &[Family] = &[
    family("private key", Make::Block(make::pem)),
    family("private key cut short", Make::Block(make::pem_cut)),
    family("PGP private key", Make::Block(make::pgp)),
    family("Google service account", Make::Block(make::service_account)),
    family("JWT", Make::Token(make::jwt)),
    family("AWS id", Make::Token(make::aws_id)),
    family(
        "AWS secret",
        Make::Named(|dice| {
            let name = dice.pick(&["aws_secret_access_key", "aws_secret_key", "secret_access_key"]);
            (name.into(), make::aws_secret(dice))
        }),
    ),
    family("AWS secret without a name", Make::Run(make::aws_secret)),
    family("Authorization", Make::Header(|dice| ("Authorization".into(), make::authorization(dice)))),
    family(
        "Proxy-Authorization",
        Make::Header(|dice| ("Proxy-Authorization".into(), make::authorization(dice))),
    ),
    family("key header", Make::Header(key_header)),
    family("Cookie", Make::Header(|dice| ("Cookie".into(), make::cookie(dice)))),
    family("Set-Cookie", Make::Header(|dice| ("Set-Cookie".into(), make::set_cookie(dice)))),
    family("Slack token", Make::Token(make::slack)),
    family("Slack webhook", Make::Url(make::slack_webhook)),
    family("Discord token", Make::Token(make::discord)),
    family("Discord webhook", Make::Url(make::discord_webhook)),
    family("GitHub token", Make::Token(make::github)),
    family("GitHub fine-grained token", Make::Token(make::github_fine)),
    family("GitLab token", Make::Token(make::gitlab)),
    family("OpenAI key", Make::Token(make::openai)),
    family("Anthropic key", Make::Token(make::anthropic)),
    family("Google key", Make::Token(make::google)),
    family("Google OAuth token", Make::Token(make::google_oauth)),
    family("Hugging Face token", Make::Token(|dice| make::token(dice, "hf_", &both(), 34))),
    family("Twilio key", Make::Token(|dice| make::token(dice, "SK", HEX, 32))),
    family("SendGrid key", Make::Token(make::sendgrid)),
    family("Stripe key", Make::Token(make::stripe)),
    family("npm token", Make::Token(make::npm)),
    family("PyPI token", Make::Token(make::pypi)),
    family("Docker token", Make::Token(make::docker)),
    family(
        "Docker auth",
        Make::Named(|dice| {
            let pair = format!("{}:{}", dice.person(), make::password(dice));
            ("auth".into(), hidden(&crate::encode::base64(pair)))
        }),
    ),
    family("Azure connection string", Make::Url(make::azure_connection)),
    family("Azure shared access signature", Make::Url(make::azure_sas)),
    family("Azure client secret", Make::Token(make::azure_app)),
    family("database URL", Make::Url(make::database_url)),
    family("database connection string", Make::Url(make::database_words)),
    family("URL with a password", Make::Url(make::url_user)),
    family(
        "X25519 or Noise key",
        Make::Named(|dice| {
            let name =
                dice.pick(&["private_key", "noise_private_key", "x25519_private_key", "static_private_key"]);
            let key = if dice.one_in(2) { dice.hex(64) } else { format!("{}=", dice.mixed(BASE64, 43)) };
            (name.into(), hidden(&key))
        }),
    ),
    family("age key", Make::Token(make::age)),
    family("password by name", Make::Named(|dice| (secret_name(dice), hidden(&make::password(dice))))),
    family(
        "password with quotes",
        Make::Named(|dice| {
            let (a, b) = (dice.mixed(ALNUM, 7), dice.mixed(ALNUM, 6));
            let odd = dice.pick(&["\"", "\\", "'", "$", "&", "\\\"", " "]);
            (dice.pick(&["password", "db_password", "smtp_password"]).into(), hidden(&format!("{a}{odd}{b}")))
        }),
    ),
    family(
        "key by name",
        Make::Named(|dice| {
            let length = dice.between(20, 48);
            (secret_name(dice), hidden(&dice.mixed(ALNUM, length)))
        }),
    ),
    family("32 hex digits by name", Make::Named(|dice| (secret_name(dice), hidden(&dice.hex(32))))),
    family("32 hex digits", Make::Run(|dice| hidden(&dice.hex(32)))),
    family(
        "variable of a provider",
        Make::Named(|dice| {
            let names = ["openai_api_key", "anthropic_api_key", "github_token", "my_token", "npm_token"];
            let name = dice.pick(&names);
            (name.into(), hidden(&dice.mixed(ALNUM, 40)))
        }),
    ),
    family(
        "random run",
        Make::Run(|dice| {
            let alphabet = dice.pick(&[BASE64, BASE64_URL, ALNUM]);
            let length = dice.between(36, 88);
            hidden(&dice.mixed(alphabet, length))
        }),
    ),
    family("token with zero-width characters", Make::Token(make::with_zero_width)),
];

fn both() -> String {
    format!("{UPPER}{LOWER}")
}

fn key_header(dice: &mut Dice) -> (String, String) {
    let names = [
        "X-Api-Key",
        "X-Auth-Token",
        "X-Auth-Key",
        "Api-Key",
        "Apikey",
        "X-Goog-Api-Key",
        "X-OpenAI-Key",
        "X-Anthropic-Key",
    ];
    let name = dice.pick(&names);
    let name = if dice.one_in(2) { name.to_owned() } else { name.to_lowercase() };
    let length = dice.between(20, 48);
    (name, hidden(&dice.mixed(BASE64_URL, length)))
}

/// A name that says that its value is secret.
fn secret_name(dice: &mut Dice) -> String {
    let names = [
        "password",
        "passwd",
        "secret",
        "token",
        "api_key",
        "apikey",
        "access_token",
        "refresh_token",
        "auth_token",
        "client_secret",
        "secret_key",
        "private_token",
        "passphrase",
        "signing_secret",
        "webhook_secret",
        "encryption_key",
        "access_key",
        "jwt_secret",
    ];
    let name = dice.pick(&names);
    if dice.one_in(4) { format!("{}_{name}", dice.noun()) } else { name.to_owned() }
}
