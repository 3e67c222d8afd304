//! Lock files: long runs of random characters that are all public.

use super::lines;
use crate::dice::{BASE64, Dice};
use crate::encode::base64;

fn sri(dice: &mut Dice) -> String {
    format!("sha512-{}", base64(dice.bytes(64)))
}

pub(crate) fn cargo(dice: &mut Dice) -> String {
    lines(dice, 2, 5, |dice| {
        format!(
            "[[package]]\nname = \"{}\"\nversion = \"{}\"\nsource = \"registry+https://github.com/rust-lang/crates-index\"\nchecksum = \"{}\"\ndependencies = [\n \"{}\",\n \"{}\",\n]\n",
            dice.kebab(2),
            dice.version(),
            dice.hex(64),
            dice.noun(),
            dice.kebab(2)
        )
    })
}

pub(crate) fn npm(dice: &mut Dice) -> String {
    lines(dice, 1, 4, |dice| {
        let (name, version) = (dice.kebab(2), dice.version());
        format!(
            "    \"node_modules/{name}\": {{\n      \"version\": \"{version}\",\n      \"resolved\": \"https://registry.npm.example/{name}/-/{name}-{version}.tgz\",\n      \
             \"integrity\": \"{}\",\n      \"license\": \"MIT\",\n      \"engines\": {{\n        \"node\": \">=18\"\n      }}\n    }},",
            sri(dice)
        )
    })
}

pub(crate) fn yarn(dice: &mut Dice) -> String {
    lines(dice, 1, 4, |dice| {
        let (name, version) = (dice.kebab(2), dice.version());
        if dice.one_in(2) {
            let (sha, sum) = (dice.hex(40), sri(dice));
            format!(
                "{name}@^{version}:\n  version \"{version}\"\n  resolved \"https://registry.yarn.example/{name}/-/{name}-{version}.tgz#{sha}\"\n  integrity {sum}\n"
            )
        } else {
            format!(
                "\"{name}@npm:^{version}\":\n  version: {version}\n  resolution: \"{name}@npm:{version}\"\n  checksum: 10c0/{}\n  languageName: node\n  linkType: hard\n",
                dice.hex(128)
            )
        }
    })
}

pub(crate) fn pnpm(dice: &mut Dice) -> String {
    lines(dice, 1, 4, |dice| {
        format!(
            "  {}@{}:\n    resolution: {{integrity: {}}}\n    engines: {{node: '>=18'}}\n",
            dice.kebab(2),
            dice.version(),
            sri(dice)
        )
    })
}

pub(crate) fn go(dice: &mut Dice) -> String {
    lines(dice, 3, 8, |dice| {
        let (module, version) = (format!("github.com/{}/{}", dice.noun(), dice.kebab(2)), dice.version());
        let (a, b) = (base64(dice.bytes(32)), base64(dice.bytes(32)));
        format!("{module} v{version} h1:{a}\n{module} v{version}/go.mod h1:{b}")
    })
}

pub(crate) fn poetry(dice: &mut Dice) -> String {
    let (name, version) = (dice.kebab(2), dice.version());
    let wheel = name.replace('-', "_");
    let files = lines(dice, 2, 5, |dice| {
        format!(
            "    {{file = \"{wheel}-{version}-cp3{}-manylinux_2_17_x86_64.whl\", hash = \"sha256:{}\"}},",
            dice.between(10, 14),
            dice.hex(64)
        )
    });
    format!(
        "[[package]]\nname = \"{name}\"\nversion = \"{version}\"\noptional = false\npython-versions = \">=3.10\"\nfiles = [\n{files}\n]\n\n[metadata]\ncontent-hash = \"{}\"\n",
        dice.hex(64)
    )
}

pub(crate) fn requirements(dice: &mut Dice) -> String {
    lines(dice, 1, 4, |dice| {
        format!(
            "{}=={} \\\n    --hash=sha256:{} \\\n    --hash=sha256:{}",
            dice.kebab(2),
            dice.version(),
            dice.hex(64),
            dice.hex(64)
        )
    })
}

pub(crate) fn flake(dice: &mut Dice) -> String {
    lines(dice, 1, 2, |dice| {
        format!(
            "    \"{}\": {{\n      \"locked\": {{\n        \"lastModified\": 1{},\n        \"narHash\": \"sha256-{}=\",\n        \"owner\": \"{}\",\n        \"rev\": \"{}\",\n        \"type\": \"github\"\n      }}\n    }}",
            dice.noun(),
            dice.digits(9),
            dice.run(BASE64, 43),
            dice.noun(),
            dice.hex(40)
        )
    })
}
