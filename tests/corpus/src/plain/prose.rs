//! What people and agents write, also about secrets.

use super::lines;
use crate::dice::Dice;
use crate::words::capital;

pub(crate) fn answer(dice: &mut Dice) -> String {
    lines(dice, 1, 4, |dice| {
        let (path, line) = (dice.path(), dice.between(1, 900));
        let (snake, camel, pascal) = (dice.snake(3), dice.camel(3), dice.pascal(3));
        let text = dice.paragraph();
        match dice.below(4) {
            0 => format!("{text} See `{path}:{line}` and `{snake}`."),
            1 => format!("{text} I renamed `{camel}` to `{pascal}` and ran `cargo test -p {}`.", dice.noun()),
            2 => format!("{text} The pull request is #{}; reviewers: @{}.", dice.below(9000), dice.person()),
            _ => text,
        }
    })
}

pub(crate) fn plan(dice: &mut Dice) -> String {
    let head = format!("## {} plan\n", capital(dice.noun()));
    head + &lines(dice, 3, 7, |dice| {
        let (tick, number) = (dice.pick(&["[ ]", "[x]"]), dice.between(1, 999));
        format!("- {tick} task-{}-{number}: {}", dice.kebab(3), dice.sentence())
    })
}

/// The words that patterns look for, where they are only words.
pub(crate) fn about_secrets(dice: &mut Dice) -> String {
    lines(dice, 1, 3, |dice| {
        let (noun, adjective, verb) = (dice.noun(), dice.adjective(), dice.verb());
        let sentence = match dice.below(30) {
            0 => "My grandmother's secret: be kind, and keep the kettle on.".to_owned(),
            1 => format!("The secret: the {noun} {verb} twice."),
            2 => format!("The key: practice every day, and the {noun} {verb} on its own"),
            3 => format!("Password: ask {} on the phone, nobody writes it down", capital(dice.person())),
            4 => format!("A token is a word here: the lexer {verb} one token per {noun}"),
            5 => format!("She is the bearer of good news about the {noun}"),
            6 => format!("We use basic authentication for the {noun}, bearer tokens for the {adjective} one"),
            7 => format!("The password field is {adjective}; the token column was dropped"),
            8 => format!("Token usage: {} in, {} out", dice.below(90_000), dice.below(9_000)),
            9 => format!("max_tokens: {}, temperature: 0.{}", dice.between(256, 64_000), dice.below(10)),
            10 => format!("The primary key of {} is `id`, the foreign key `{noun}_id`", dice.snake(2)),
            11 => format!("Press any key to continue; the {adjective} key is F{}", dice.between(1, 12)),
            12 => format!("Authorization: the {noun} service decides, see {}", dice.path()),
            13 => format!("Credentials are read from the {noun} when it {verb}"),
            14 => format!("The cookie banner {verb} the {noun}; cookies: two kinds, {adjective} and plain"),
            15 => format!("{} secrets were found in {} files", dice.below(9), dice.below(900)),
            16 => format!("A secret santa {noun} {verb} the {adjective} gift"),
            17 => format!("API keys: see the section about {noun}s. Tokens: see below"),
            18 => format!(
                "Rotate the signing key every {} days, the encryption key with it",
                dice.between(30, 400)
            ),
            19 => format!("It prints `token: expected identifier, found {noun}`"),
            20 => format!("The auth: middleware {verb} the {noun} before the {adjective} one"),
            21 => format!("passwordless sign-in {verb} a link; no password is kept for the {noun}"),
            22 => format!("Tokenizer: {} tokens per second on the {adjective} {noun}", dice.below(90_000)),
            23 => format!(
                "keyboard layout = {}; monkey = {}; turkey: {noun}",
                dice.pick(&["us", "de"]),
                dice.noun()
            ),
            24 => format!("The author: {} <{}@example.org>", capital(dice.person()), dice.person()),
            25 => format!("secretary = {}; the secretariat {verb} it", capital(dice.person())),
            26 => format!("Passphrase or password? The {noun} accepts both, {adjective} or not"),
            27 => format!("session: {} minutes; cookie: strict; csrf: on", dice.between(5, 90)),
            28 => format!("Key: value pairs are split at the first colon; the {noun} {verb} the rest"),
            _ => format!("A private key never leaves the {noun}; a public key {verb} it"),
        };
        format!("{} {sentence}. {}.", dice.paragraph(), dice.sentence())
    })
}

pub(crate) fn markdown(dice: &mut Dice) -> String {
    let (title, noun, path) = (capital(dice.adjective()), dice.noun(), dice.path());
    let table = lines(dice, 2, 5, |dice| {
        format!("| `{}` | {} | {} |", dice.snake(2), dice.pick(&["string", "int", "bool"]), dice.sentence())
    });
    let link = format!("[{noun}](https://{}/docs/{}#{})", dice.host(), dice.kebab(3), dice.kebab(2));
    format!(
        "# {title} {noun}\n\n{}\n\n| option | type | meaning |\n|---|---|---|\n{table}\n\nSee {link} and `{path}`.\n\n```sh\nmake {noun}\n```\n",
        dice.paragraph()
    )
}

/// Where a secret would stand and only a reference does.
pub(crate) fn placeholders(dice: &mut Dice) -> String {
    lines(dice, 1, 4, |dice| {
        let (noun, upper) = (dice.noun(), dice.snake(2).to_uppercase());
        match dice.below(18) {
            0 => format!("export {upper}_TOKEN=$(gh auth token)"),
            1 => format!("password: ${{{upper}_PASSWORD}}"),
            2 => format!("api_key = os.environ[\"{upper}_API_KEY\"]"),
            3 => format!("const token = process.env.{upper}_TOKEN;"),
            4 => format!("TOKEN=<your {noun} token>"),
            5 => format!("curl -H \"Authorization: Bearer $TOKEN\" https://{}/{noun}", dice.host()),
            6 => format!("{{\"{noun}\": 1, \"password\": null, \"token\": \"\"}}"),
            7 => "password = \"\"".to_owned(),
            8 => format!("secret: !vault {noun}/{}", dice.snake(2)),
            9 => format!("DATABASE_URL=postgres://${{DB_USER}}:${{DB_PASSWORD}}@{}/app", dice.host()),
            10 => format!("token: {{{{ .Values.{}.token }}}}", dice.camel(2)),
            11 => format!("password = var.{}_password", dice.snake(1)),
            12 => format!("passwordRef: secret://{noun}/{}", dice.kebab(2)),
            13 => format!("if args.password is None: args.password = getpass('{noun}: ')"),
            14 => format!("let secret = Secret::from_env(\"{upper}\")?;"),
            15 => format!(
                "require_token: true\ntoken_required: false\nkeep_token: {}",
                dice.pick(&["yes", "no"])
            ),
            16 => format!("--password-file /run/secrets/{noun} --token-file ./{}.txt", dice.kebab(2)),
            _ => format!("Authorization: Bearer <token>\nX-Api-Key: <key of the {noun}>"),
        }
    })
}
