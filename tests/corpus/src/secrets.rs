//! Invents the secrets themselves, shaped as their makers shape them. What is public of one, such as its prefix, is not
//! marked.

use crate::dice::{ALNUM, BASE32, BASE64, BASE64_URL, DIGITS, Dice, LOWER, UPPER};
use crate::encode::{base64, base64_url, url, with_checksum};
use crate::sample::hidden;
use crate::words::capital;

/// A prefix that everybody knows, and then something random.
pub(crate) fn token(dice: &mut Dice, prefix: &str, alphabet: &str, length: usize) -> String {
    format!("{prefix}{}", hidden(&dice.run(alphabet, length)))
}

pub(crate) fn github(dice: &mut Dice) -> String {
    let prefix = dice.pick(&["ghp_", "gho_", "ghu_", "ghs_", "ghr_"]);
    format!("{prefix}{}", hidden(&with_checksum(&dice.mixed(ALNUM, 30))))
}

pub(crate) fn npm(dice: &mut Dice) -> String {
    format!("npm_{}", hidden(&with_checksum(&dice.mixed(ALNUM, 30))))
}

pub(crate) fn github_fine(dice: &mut Dice) -> String {
    let (id, rest) = (dice.mixed(ALNUM, 22), dice.mixed(ALNUM, 59));
    format!("github_pat_{}", hidden(&format!("{id}_{rest}")))
}

pub(crate) fn jwt(dice: &mut Dice) -> String {
    let (kind, signature) = match dice.below(3) {
        0 => ("HS256", 43),
        1 => ("ES256", 86),
        _ => ("RS256", 342),
    };
    let header = match dice.below(2) {
        0 => format!("{{\"alg\":\"{kind}\",\"typ\":\"JWT\"}}"),
        _ => format!("{{\"typ\":\"JWT\",\"alg\":\"{kind}\",\"kid\":\"{}\"}}", dice.hex(8)),
    };
    let (who, since) = (dice.uuid(), dice.digits(9));
    let claims = format!(
        "{{\"sub\":\"{who}\",\"name\":\"{}\",\"iat\":1{since},\"exp\":1{since}}}",
        capital(dice.person())
    );
    let body = format!("{}.{}", base64_url(claims), dice.run(BASE64_URL, signature));
    format!("{}.{}", base64_url(header), hidden(&body))
}

pub(crate) fn slack(dice: &mut Dice) -> String {
    let (team, bot) = (dice.between(10, 13), dice.between(10, 13));
    let (team, bot) = (dice.run("123456789", team), dice.run("123456789", bot));
    match dice.below(4) {
        0 => format!("xoxb-{team}-{bot}-{}", hidden(&dice.mixed(ALNUM, 24))),
        1 => {
            let user = dice.digits(12);
            format!("xoxp-{team}-{bot}-{user}-{}", hidden(&dice.hex(32)))
        }
        2 => format!("xoxa-2-{team}-{bot}-{}", hidden(&dice.mixed(ALNUM, 24))),
        _ => {
            let app = dice.run(&format!("{UPPER}{DIGITS}"), 10);
            format!("xapp-1-A{app}-{bot}-{}", hidden(&dice.hex(64)))
        }
    }
}

pub(crate) fn slack_webhook(dice: &mut Dice) -> String {
    let letters = format!("{UPPER}{DIGITS}");
    let (team, hook) = (dice.run(&letters, 8), dice.run(&letters, 10));
    format!("https://hooks.slack.com/services/T{team}/B{hook}/{}", hidden(&dice.mixed(ALNUM, 24)))
}

pub(crate) fn discord(dice: &mut Dice) -> String {
    let (user, time) = (base64_url(dice.run("123456789", 18)), dice.mixed(BASE64_URL, 6));
    format!("{user}.{time}.{}", hidden(&dice.mixed(BASE64_URL, 38)))
}

pub(crate) fn discord_webhook(dice: &mut Dice) -> String {
    let channel = dice.run("123456789", 18);
    format!("https://discord.com/api/webhooks/{channel}/{}", hidden(&dice.mixed(BASE64_URL, 68)))
}

pub(crate) fn openai(dice: &mut Dice) -> String {
    let prefix = dice.pick(&["sk-", "sk-proj-", "sk-svcacct-", "sk-admin-"]);
    let half = if prefix == "sk-" { 20 } else { 74 };
    let (a, b) = (dice.mixed(ALNUM, half), dice.mixed(ALNUM, half));
    format!("{prefix}{}", hidden(&format!("{a}T3BlbkFJ{b}")))
}

pub(crate) fn anthropic(dice: &mut Dice) -> String {
    let prefix = dice.pick(&["sk-ant-api03-", "sk-ant-oat01-", "sk-ant-admin01-"]);
    format!("{prefix}{}", hidden(&format!("{}AA", dice.mixed(BASE64_URL, 93))))
}

pub(crate) fn stripe(dice: &mut Dice) -> String {
    let prefix = dice.pick(&["sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"]);
    let length = if prefix == "whsec_" { 32 } else { 24 + 75 * dice.below(2) };
    format!("{prefix}{}", hidden(&dice.mixed(ALNUM, length)))
}

pub(crate) fn sendgrid(dice: &mut Dice) -> String {
    format!("SG.{}.{}", hidden(&dice.mixed(BASE64_URL, 22)), hidden(&dice.mixed(BASE64_URL, 43)))
}

pub(crate) fn pypi(dice: &mut Dice) -> String {
    let length = dice.between(140, 180);
    format!("pypi-AgEIcHlwaS5vcmc{}", hidden(&dice.mixed(BASE64_URL, length)))
}

pub(crate) fn docker(dice: &mut Dice) -> String {
    let (prefix, length) = if dice.one_in(2) { ("dckr_pat_", 27) } else { ("dckr_oat_", 32) };
    format!("{prefix}{}", hidden(&dice.mixed(BASE64_URL, length)))
}

pub(crate) fn gitlab(dice: &mut Dice) -> String {
    let prefix = dice.pick(&["glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-"]);
    let length = if prefix == "glptt-" { 40 } else { 20 };
    format!("{prefix}{}", hidden(&dice.mixed(ALNUM, length)))
}

pub(crate) fn google(dice: &mut Dice) -> String {
    match dice.below(3) {
        0 | 1 => format!("AIza{}", hidden(&dice.mixed(BASE64_URL, 35))),
        _ => format!("GOCSPX-{}", hidden(&dice.mixed(BASE64_URL, 28))),
    }
}

pub(crate) fn google_oauth(dice: &mut Dice) -> String {
    let length = dice.between(60, 160);
    format!("ya29.a0{}", hidden(&dice.mixed(BASE64_URL, length)))
}

pub(crate) fn azure_app(dice: &mut Dice) -> String {
    let (front, digit) = (dice.run(ALNUM, 3), dice.run(DIGITS, 1));
    let rest = dice.mixed(BASE64_URL, 34);
    hidden(&format!("{front}{digit}Q~{rest}"))
}

pub(crate) fn azure_connection(dice: &mut Dice) -> String {
    let name = dice.noun();
    if dice.one_in(2) {
        let key = format!("{}==", dice.mixed(BASE64, 86));
        let end = "EndpointSuffix=core.windows.net";
        return format!(
            "DefaultEndpointsProtocol=https;AccountName={name};AccountKey={};{end}",
            hidden(&key)
        );
    }
    let key = format!("{}=", dice.mixed(BASE64, 43));
    let bus = format!("Endpoint=sb://{name}.servicebus.windows.net/;SharedAccessKeyName=Root");
    format!("{bus};SharedAccessKey={}", hidden(&key))
}

pub(crate) fn azure_sas(dice: &mut Dice) -> String {
    let (name, signature) = (dice.noun(), format!("{}=", dice.mixed(BASE64, 43)));
    let signature = url(&signature);
    format!(
        "https://{name}.blob.core.windows.net/backup?sv=2031-01-01&sp=rl&se=2031-09-01&sig={}",
        hidden(&signature)
    )
}

pub(crate) fn database_url(dice: &mut Dice) -> String {
    let kinds =
        ["postgres", "postgresql", "mysql", "mongodb+srv", "mongodb", "redis", "rediss", "amqp", "mssql"];
    let (kind, user, host) = (dice.pick(&kinds), dice.person(), dice.host());
    let user = if kind.starts_with("redis") && dice.one_in(2) { "" } else { user };
    let password = url(&password(dice));
    format!("{kind}://{user}:{}@{host}:{}/{}", hidden(&password), dice.between(1024, 9999), dice.noun())
}

pub(crate) fn database_words(dice: &mut Dice) -> String {
    let (host, user, name) = (dice.host(), dice.person(), dice.noun());
    let secret = hidden(&dice.mixed(ALNUM, 16));
    match dice.below(3) {
        0 => format!("Server={host},1433;Database={name};User Id={user};Password={secret};Encrypt=True"),
        1 => format!("host={host} port=5432 dbname={name} user={user} password={secret} sslmode=require"),
        _ => format!("jdbc:postgresql://{host}:5432/{name}?user={user}&password={secret}"),
    }
}

pub(crate) fn url_user(dice: &mut Dice) -> String {
    let (user, host, repo) = (dice.person(), dice.host(), dice.kebab(2));
    let kind = dice.pick(&["https", "http", "ftp", "git+https", "socks5"]);
    let password = url(&password(dice));
    format!("{kind}://{user}:{}@{host}/{repo}", hidden(&password))
}

pub(crate) fn pem(dice: &mut Dice) -> String {
    let (name, start) = pem_kind(dice);
    let body = pem_body(dice, start);
    format!("-----BEGIN {name}PRIVATE KEY-----\n{body}\n-----END {name}PRIVATE KEY-----")
}

/// As a log or a tool's output that was cut short has it.
pub(crate) fn pem_cut(dice: &mut Dice) -> String {
    let (name, start) = pem_kind(dice);
    format!("-----BEGIN {name}PRIVATE KEY-----\n{}", pem_body(dice, start))
}

fn pem_kind(dice: &mut Dice) -> (&'static str, &'static str) {
    match dice.below(5) {
        0 => ("RSA ", "MIIEpAIBAAKCAQEA"),
        1 => ("EC ", "MHcCAQEEI"),
        2 => ("OPENSSH ", "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAAB"),
        3 => ("ENCRYPTED ", "MIIFLTBXBgkqhkiG9w0BBQ0wSjApBgkqhkiG9w0BBQwwHAQI"),
        _ => ("", "MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgw"),
    }
}

/// Lines of 64; each is a secret of its own, so that what a diff or an indent puts between them is none.
fn pem_body(dice: &mut Dice, start: &str) -> String {
    let (lines, last) = (dice.between(2, 25), dice.between(6, 15) * 4);
    let first = format!("{start}{}", dice.mixed(BASE64, 64 - start.len()));
    let mut body = vec![hidden(&first)];
    body.extend((0..lines).map(|_| hidden(&dice.run(BASE64, 64))));
    body.push(hidden(&format!("{}=", dice.run(BASE64, last - 1))));
    body.join("\n")
}

pub(crate) fn pgp(dice: &mut Dice) -> String {
    let lines = dice.between(4, 20);
    let mut body: Vec<String> = (0..lines).map(|_| hidden(&dice.run(BASE64, 64))).collect();
    body.push(hidden(&format!("{}==", dice.run(BASE64, 30))));
    let (body, sum) = (body.join("\n"), dice.run(BASE64, 4));
    format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{body}\n={sum}\n-----END PGP PRIVATE KEY BLOCK-----")
}

/// What `gcloud` downloads.
pub(crate) fn service_account(dice: &mut Dice) -> String {
    let (project, id) = (dice.kebab(2), dice.hex(40));
    let key = crate::encode::json(&(pem(dice) + "\n"));
    format!(
        "{{\n  \"type\": \"service_account\",\n  \"project_id\": \"{project}\",\n  \"private_key_id\": \"{id}\",\n  \"private_key\": \
         \"{key}\",\n  \"client_email\": \"deploy@{project}.iam.gserviceaccount.com\"\n}}"
    )
}

pub(crate) fn age(dice: &mut Dice) -> String {
    token(dice, "AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)
}

pub(crate) fn aws_id(dice: &mut Dice) -> String {
    let prefix = dice.pick(&["AKIA", "ASIA", "AGPA", "AIDA", "AROA", "ANPA", "ANVA"]);
    token(dice, prefix, BASE32, 16)
}

/// With a slash or a plus in it, where naive patterns end.
pub(crate) fn aws_secret(dice: &mut Dice) -> String {
    loop {
        let secret = dice.mixed(BASE64, 40);
        if secret.contains('/') || secret.contains('+') {
            return hidden(&secret);
        }
    }
}

/// What a scheme of `Authorization` carries.
pub(crate) fn authorization(dice: &mut Dice) -> String {
    let (user, opaque) = (dice.person(), dice.between(24, 64));
    match dice.below(6) {
        0 | 1 => format!("Bearer {}", hidden(&dice.mixed(BASE64_URL, opaque))),
        2 => format!("Basic {}", hidden(&base64(format!("{user}:{}", password(dice))))),
        3 => format!("Token {}", hidden(&dice.hex(40))),
        4 => format!("ApiKey {}", hidden(&dice.mixed(BASE64, 40))),
        _ => {
            let day = dice.digits(6);
            let scope = format!("AWS4-HMAC-SHA256 Credential=AKIA{}/20{day}", hidden(&dice.run(BASE32, 16)));
            let signed = "us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-date";
            format!("{scope}/{signed}, Signature={}", hidden(&dice.hex(64)))
        }
    }
}

pub(crate) fn cookie(dice: &mut Dice) -> String {
    let (name, theme) =
        (dice.pick(&["sid", "session", "connect.sid", "auth", "PHPSESSID"]), dice.adjective());
    let value = hidden(&dice.mixed(ALNUM, 32));
    format!("theme={theme}; {name}={value}; csrftoken={}", hidden(&dice.mixed(ALNUM, 32)))
}

pub(crate) fn set_cookie(dice: &mut Dice) -> String {
    let name = dice.pick(&["sid", "session", "__Host-session", "remember_token"]);
    format!("{name}={}; Path=/; Secure; HttpOnly; SameSite=Lax", hidden(&dice.mixed(ALNUM, 40)))
}

/// With something in it that shows nothing.
pub(crate) fn with_zero_width(dice: &mut Dice) -> String {
    let whole = match dice.below(4) {
        0 => aws_id(dice),
        1 => github(dice),
        2 => anthropic(dice),
        _ => stripe(dice),
    };
    let mut letters: Vec<char> = whole.chars().filter(|letter| !is_mark(*letter)).collect();
    let blank = ['\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{feff}'][dice.below(5)];
    let at = dice.between(2, letters.len() - 2);
    letters.insert(at, blank);
    hidden(&letters.into_iter().collect::<String>())
}

fn is_mark(letter: char) -> bool {
    [crate::sample::OPEN, crate::sample::CLOSE].contains(&letter)
}

/// What people and their password managers take. Without blanks or quotes.
pub(crate) fn password(dice: &mut Dice) -> String {
    match dice.below(5) {
        0 => {
            let (a, b, n) = (capital(dice.noun()), dice.noun(), dice.between(10, 9999));
            format!("{a}-{b}-{n}{}", dice.pick(&["!", "", "?", "#"]))
        }
        1 => dice.mixed(ALNUM, 12),
        2 => {
            format!("{}{}{}", dice.mixed(ALNUM, 8), dice.pick(&["!", "%", "^", "*", "@"]), dice.run(LOWER, 4))
        }
        3 => dice.mixed(ALNUM, 24),
        _ => format!("{}{}", dice.run(LOWER, 7), dice.digits(4)),
    }
}
