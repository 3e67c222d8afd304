//! Digests, ids, images, public keys, configuration: random looks, public content.

use super::lines;
use crate::dice::{ALNUM, BASE64, Dice, UPPER_HEX};
use crate::encode::{base64, json};
use crate::words::capital;

pub(crate) fn digests(dice: &mut Dice) -> String {
    lines(dice, 2, 6, |dice| {
        let (path, name) = (dice.path(), dice.kebab(2));
        match dice.below(9) {
            0 => format!("{}  {path}", dice.hex(64)),
            1 => format!("{} *{name}.tar.gz", dice.hex(40)),
            2 => format!("sha256:{}", dice.hex(64)),
            3 => format!("{name}: digest: sha256:{} size: {}", dice.hex(64), dice.below(9999)),
            4 => format!("MD5 ({name}.iso) = {}", dice.hex(32)),
            5 => format!("\"sha512\": \"{}\"", dice.hex(128)),
            6 => format!(
                "<script src=\"/{name}.js\" integrity=\"sha384-{}\" crossorigin=\"anonymous\"></script>",
                base64(dice.bytes(48))
            ),
            7 => format!("md5={} name={name}", dice.hex(32)),
            _ => format!("SHA1: {}\nBLAKE3: {}", dice.run(UPPER_HEX, 40), dice.hex(64)),
        }
    })
}

pub(crate) fn uuids(dice: &mut Dice) -> String {
    lines(dice, 2, 8, |dice| {
        let (uuid, noun) = (dice.uuid(), dice.noun());
        match dice.below(7) {
            0 => uuid,
            1 => format!("{noun}_id = \"{uuid}\""),
            2 => format!("urn:uuid:{uuid}"),
            3 => format!("{{{}}}", uuid.to_uppercase()),
            4 => format!("GET /v1/{noun}s/{uuid}/{}", dice.noun()),
            5 => format!("wt_{uuid} ses_{} run_{}", dice.uuid(), dice.uuid()),
            _ => format!("{{\"id\":\"{uuid}\",\"{noun}\":\"{}\"}}", dice.uuid()),
        }
    })
}

pub(crate) fn identifiers(dice: &mut Dice) -> String {
    lines(dice, 2, 7, |dice| match dice.below(9) {
        0 => dice.pascal(7),
        1 => dice.snake(8),
        2 => format!("{}_{}_{}", dice.snake(3).to_uppercase(), dice.below(99), dice.snake(2).to_uppercase()),
        3 => format!("task-{}-{}", dice.kebab(5), dice.below(9999)),
        4 => format!(
            "com.{}.{}.{}.Abstract{}FactoryBean",
            dice.noun(),
            dice.noun(),
            dice.noun(),
            dice.pascal(5)
        ),
        5 => format!(
            "{}::{}::<{}, {}>::{}",
            dice.snake(2),
            dice.snake(2),
            dice.pascal(2),
            dice.pascal(3),
            dice.snake(4)
        ),
        6 => format!("_ZN{}{}{}{}17h{}E", 7, dice.snake(2), 5, dice.snake(2), dice.hex(16)),
        7 => format!(
            "{}Of{}With{}And{}2Test{}",
            dice.camel(3),
            dice.pascal(2),
            dice.pascal(2),
            dice.pascal(2),
            dice.below(99)
        ),
        _ => format!("--{}-{}={}", dice.kebab(4), dice.kebab(2), dice.kebab(3)),
    })
}

pub(crate) fn files(dice: &mut Dice) -> String {
    lines(dice, 2, 7, |dice| {
        let (who, version) = (dice.person(), dice.version());
        match dice.below(6) {
            0 => format!(
                "/home/{who}/.cargo/registry/src/index.crates.example-{}/{}-{version}/src/{}.rs",
                dice.hex(16),
                dice.kebab(2),
                dice.snake(2)
            ),
            1 => format!("target/debug/deps/lib{}-{}.rlib", dice.snake(3), dice.hex(16)),
            2 => format!("node_modules/.cache/{}/{}.json", dice.noun(), dice.hex(40)),
            3 => format!(
                "/nix/store/{}-{}-{version}/bin/{}",
                dice.run("0123456789abcdfghijklmnpqrsvwxyz", 32),
                dice.kebab(2),
                dice.noun()
            ),
            4 => format!(
                "/Users/{who}/Library/Application Support/{}/{}.sqlite3",
                capital(dice.noun()),
                dice.uuid()
            ),
            _ => format!("/usr/lib/x86_64-linux-gnu/lib{}-{}.so.{version}", dice.kebab(3), dice.below(9)),
        }
    })
}

/// Bytes like an image's, with the right start.
fn picture(dice: &mut Dice) -> (&'static str, String) {
    let (kind, start): (_, &[u8]) = match dice.below(4) {
        0 => ("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0"),
        1 => ("image/jpeg", b"\xff\xd8\xff\xe0\0\x10JFIF\0"),
        2 => ("image/gif", b"GIF89a\x01\0\x01\0"),
        _ => ("image/webp", b"RIFF\x24\0\0\0WEBPVP8 "),
    };
    let length = dice.between(60, 900);
    let mut bytes = start.to_vec();
    bytes.extend(dice.bytes(length));
    (kind, base64(bytes))
}

pub(crate) fn images(dice: &mut Dice) -> String {
    let (kind, data) = picture(dice);
    match dice.below(4) {
        0 => format!("<img alt=\"{}\" src=\"data:{kind};base64,{data}\">", dice.noun()),
        1 => format!("![{}](data:{kind};base64,{data})", dice.noun()),
        2 => format!(".{} {{ background: url(\"data:{kind};base64,{data}\") no-repeat; }}", dice.kebab(2)),
        _ => {
            let length = dice.between(60, 600);
            format!(
                "@font-face {{ font-family: {}; src: url(data:font/woff2;base64,{}) }}",
                dice.noun(),
                base64(dice.bytes(length))
            )
        }
    }
}

/// As tools hand images to models.
pub(crate) fn image_blocks(dice: &mut Dice) -> String {
    let (kind, data) = picture(dice);
    match dice.below(3) {
        0 => format!(
            "{{\"type\":\"image\",\"source\":{{\"type\":\"base64\",\"media_type\":\"{kind}\",\"data\":\"{data}\"}}}}"
        ),
        1 => format!("{{\"type\":\"image\",\"data\":\"{data}\",\"mimeType\":\"{kind}\"}}"),
        _ => format!("{{\"type\":\"input_image\",\"image_url\":\"data:{kind};base64,{data}\"}}"),
    }
}

pub(crate) fn public_keys(dice: &mut Dice) -> String {
    lines(dice, 1, 3, |dice| match dice.below(3) {
        0 => format!(
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{} {}@{}",
            dice.run(BASE64, 43),
            dice.person(),
            dice.noun()
        ),
        1 => format!(
            "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAB{} {}@{}",
            dice.run(BASE64, 340),
            dice.person(),
            dice.noun()
        ),
        _ => format!("{} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{}", dice.host(), dice.run(BASE64, 43)),
    })
}

pub(crate) fn certificates(dice: &mut Dice) -> String {
    let name = dice.pick(&["CERTIFICATE", "PUBLIC KEY", "CERTIFICATE REQUEST", "PGP SIGNATURE"]);
    let body = lines(dice, 3, 18, |dice| dice.run(BASE64, 64));
    let text = format!("-----BEGIN {name}-----\n{body}\n{}==\n-----END {name}-----", dice.run(BASE64, 22));
    if dice.one_in(3) { format!("{{\"{}\": \"{}\"}}", dice.noun(), json(&text)) } else { text }
}

pub(crate) fn numbers(dice: &mut Dice) -> String {
    lines(dice, 3, 9, |dice| match dice.below(5) {
        0 => {
            format!("{},{},{}.{},{}", dice.time(), dice.noun(), dice.digits(3), dice.digits(6), dice.below(9))
        }
        1 => format!("| {} | {} | {}.{} % |", dice.noun(), dice.digits(7), dice.below(99), dice.below(9)),
        2 => format!(
            "10.{}.{}.0/24 via 192.168.1.{} dev eth0",
            dice.below(255),
            dice.below(255),
            dice.below(255)
        ),
        3 => format!("0x{} 0x{} {}e-0{}", dice.hex(16), dice.hex(16), dice.digits(4), dice.below(9)),
        _ => format!("1{} {} {}", dice.digits(18), dice.digits(12), dice.digits(16)),
    })
}

pub(crate) fn hex_dump(dice: &mut Dice) -> String {
    let mut at = 0;
    lines(dice, 3, 9, |dice| {
        at += 16;
        let bytes = dice.bytes(16);
        let pairs: Vec<String> =
            bytes.chunks(2).map(|two| two.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
        let text: String =
            bytes.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' }).collect();
        format!("{at:08x}: {}  {text}", pairs.join(" "))
    })
}

pub(crate) fn manifests(dice: &mut Dice) -> String {
    let (name, noun, host) = (dice.kebab(2), dice.noun(), dice.host());
    match dice.below(4) {
        0 => format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\nspec:\n  template:\n    spec:\n      imagePullSecrets:\n        - name: {noun}-registry\n      containers:\n        \
             - name: {noun}\n          image: {host}/{name}@sha256:{}\n          env:\n            - name: DB_PASSWORD\n              valueFrom:\n                secretKeyRef:\n                  \
             name: {noun}-db\n                  key: password\n",
            dice.hex(64)
        ),
        1 => format!(
            "services:\n  {noun}:\n    image: {name}:{}\n    secrets:\n      - {noun}_password\n    environment:\n      POSTGRES_PASSWORD_FILE: /run/secrets/{noun}_password\nsecrets:\n  \
             {noun}_password:\n    file: ./{noun}.txt\n",
            dice.version()
        ),
        2 => format!(
            "resource \"aws_secretsmanager_secret\" \"{noun}\" {{\n  name = \"{name}\"\n}}\n\noutput \"password\" {{\n  value     = random_password.{noun}.result\n  sensitive = true\n}}\n"
        ),
        _ => format!(
            "[package]\nname = \"{name}\"\nversion = \"{}\"\n\n[dependencies]\n{noun} = {{ version = \"{}\", features = [\"{}\"] }}\ntoken-source = \"{}\"\n",
            dice.version(),
            dice.version(),
            dice.kebab(2),
            dice.version()
        ),
    }
}

pub(crate) fn workflows(dice: &mut Dice) -> String {
    let (noun, upper) = (dice.noun(), dice.snake(2).to_uppercase());
    format!(
        "name: {noun}\non: [push]\njobs:\n  {noun}:\n    runs-on: ubuntu-latest\n    permissions:\n      id-token: write\n    steps:\n      - uses: actions/checkout@{} # v{}\n      \
         - run: make {}\n        env:\n          TOKEN: ${{{{ secrets.{upper}_TOKEN }}}}\n          PASSWORD: ${{{{ secrets.{upper} }}}}\n",
        dice.hex(40),
        dice.version(),
        dice.noun()
    )
}

pub(crate) fn cloud(dice: &mut Dice) -> String {
    lines(dice, 2, 6, |dice| {
        let account = dice.digits(12);
        match dice.below(8) {
            0 => format!("arn:aws:iam::{account}:role/{}", dice.pascal(3)),
            1 => format!(
                "arn:aws:secretsmanager:eu-west-1:{account}:secret:{}-{}",
                dice.kebab(2),
                dice.run(ALNUM, 6)
            ),
            2 => format!("i-0{} vpc-0{} subnet-0{} running", dice.hex(16), dice.hex(16), dice.hex(16)),
            3 => format!(
                "projects/{}/locations/europe-west1/keyRings/{}/cryptoKeys/{}",
                dice.kebab(2),
                dice.noun(),
                dice.noun()
            ),
            4 => format!(
                "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.KeyVault/vaults/{}",
                dice.uuid(),
                dice.noun(),
                dice.kebab(2)
            ),
            5 => format!(
                "s3://{}/{}/part-0000{}-{}-c000.snappy.parquet",
                dice.kebab(3),
                dice.noun(),
                dice.below(9),
                dice.uuid()
            ),
            6 => format!("01J{}", dice.run("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 23)),
            _ => format!("gcr.io/{}/{}:{}-g{}", dice.kebab(2), dice.noun(), dice.version(), dice.hex(7)),
        }
    })
}
