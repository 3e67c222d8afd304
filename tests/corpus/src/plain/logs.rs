//! What programs print while they run, are built, are tested and fail.

use super::lines;
use crate::dice::Dice;

pub(crate) fn application(dice: &mut Dice) -> String {
    lines(dice, 3, 10, |dice| {
        let (time, level) = (dice.time(), dice.pick(&["INFO", "DEBUG", "WARN", "ERROR"]));
        let (module, text, id) = (dice.snake(2), dice.sentence(), dice.uuid());
        match dice.below(5) {
            0 => format!("{time} {level:>5} {module}::{}: {text} request_id={id}", dice.noun()),
            1 => format!(
                "[{time}] {level} [{module}] {text} ({} ms, {} bytes)",
                dice.below(900),
                dice.below(99_999)
            ),
            2 => format!("{time} {level} {module} user={} session={id} status=ok", dice.person()),
            3 => format!(
                "{level} {module}: loaded /home/{}/{} in {} us",
                dice.person(),
                dice.path(),
                dice.below(9_999)
            ),
            _ => format!(
                "{time} {level} {module}: commit {} tokens={} key_count={}",
                dice.hex(7),
                dice.below(9_999),
                dice.below(99)
            ),
        }
    })
}

pub(crate) fn access(dice: &mut Dice) -> String {
    lines(dice, 3, 8, |dice| {
        let ip = format!("10.{}.{}.{}", dice.below(255), dice.below(255), dice.below(255));
        let (verb, path, status) =
            (dice.pick(&["GET", "POST", "PUT"]), dice.kebab(3), dice.pick(&["200", "304", "404"]));
        let asset = format!("/static/{}.{}.js", dice.noun(), dice.hex(8));
        let path = if dice.one_in(3) {
            asset
        } else {
            format!("/v1/{path}/{}?page={}&sort=name", dice.uuid(), dice.below(99))
        };
        format!(
            "{ip} - - [03/Feb/2031:10:{:02}:{:02} +0000] \"{verb} {path} HTTP/1.1\" {status} {} \"-\" \"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101\"",
            dice.below(60),
            dice.below(60),
            dice.below(90_000)
        )
    })
}

pub(crate) fn json_lines(dice: &mut Dice) -> String {
    lines(dice, 2, 6, |dice| {
        let (time, text, id) = (dice.time(), dice.sentence(), dice.uuid());
        format!(
            "{{\"ts\":\"{time}\",\"level\":\"info\",\"logger\":\"{}.{}\",\"msg\":\"{text}\",\"request_id\":\"{id}\",\"duration_ms\":{}.{},\"keys\":{},\"host\":\"{}\"}}",
            dice.camel(2),
            dice.pascal(2),
            dice.below(900),
            dice.below(999),
            dice.below(50),
            dice.host()
        )
    })
}

/// 32 hex digits that say what they are.
pub(crate) fn traces(dice: &mut Dice) -> String {
    lines(dice, 2, 5, |dice| {
        let (trace, span, parent) = (dice.hex(32), dice.hex(16), dice.hex(16));
        let (name, time) = (dice.snake(2), dice.time());
        match dice.below(3) {
            0 => format!("{time} INFO {name}: done trace_id={trace} span_id={span}"),
            1 => format!(
                "{{\"traceId\":\"{trace}\",\"spanId\":\"{span}\",\"parentSpanId\":\"{parent}\",\"name\":\"{name}\"}}"
            ),
            _ => format!("traceparent: 00-{trace}-{span}-01"),
        }
    })
}

pub(crate) fn journal(dice: &mut Dice) -> String {
    lines(dice, 3, 8, |dice| {
        let start = format!(
            "Feb 03 10:{:02}:{:02} {} {}[{}]:",
            dice.below(60),
            dice.below(60),
            dice.noun(),
            dice.noun(),
            dice.below(9999)
        );
        match dice.below(5) {
            0 => format!("{start} pam_unix(cron:session): session opened for user root(uid=0) by (uid=0)"),
            1 => format!(
                "{start} Accepted publickey for {} from 10.0.0.{} port {} ssh2: ED25519 SHA256:{}",
                dice.person(),
                dice.below(255),
                dice.between(1024, 65_000),
                dice.mixed(crate::dice::BASE64, 43)
            ),
            2 => format!("{start} Started {}.service - {}.", dice.kebab(2), dice.sentence()),
            3 => format!(
                "{start} Failed password for invalid user {} from 10.0.0.{} port 4{}",
                dice.person(),
                dice.below(255),
                dice.digits(4)
            ),
            _ => format!("{start} {}", dice.sentence()),
        }
    })
}

pub(crate) fn cluster(dice: &mut Dice) -> String {
    lines(dice, 3, 7, |dice| {
        let pod =
            format!("{}-{}-{}", dice.kebab(2), dice.hex(10), dice.run("bcdfghjklmnpqrstvwxz2456789", 5));
        let image = format!("registry.{}/{}@sha256:{}", dice.host(), dice.noun(), dice.hex(64));
        match dice.below(4) {
            0 => format!(
                "I0203 10:14:{:02}.{} 1 controller.go:{}] \"Reconciling\" pod=\"default/{pod}\" uid=\"{}\"",
                dice.below(60),
                dice.digits(6),
                dice.below(900),
                dice.uuid()
            ),
            1 => {
                format!("Normal  Pulled  3m  kubelet  Container image \"{image}\" already present on machine")
            }
            2 => format!("pod/{pod} condition met; resourceVersion: \"{}\"", dice.digits(9)),
            _ => format!("Successfully pulled image \"{image}\" in {}.{}s", dice.below(60), dice.digits(3)),
        }
    })
}

pub(crate) fn ci(dice: &mut Dice) -> String {
    let (run, sha) = (dice.digits(10), dice.hex(40));
    let head = format!(
        "##[group]Run actions/checkout@{}\nrepository: {}/{}\nref: {sha}\nfetch-depth: 1\n##[endgroup]",
        dice.hex(40),
        dice.noun(),
        dice.kebab(2)
    );
    let body = lines(dice, 2, 6, |dice| match dice.below(4) {
        0 => format!("{} Syncing repository: {}/{}", dice.time(), dice.noun(), dice.kebab(2)),
        1 => format!("HEAD is now at {} {}", dice.hex(7), dice.sentence()),
        2 => format!("Cache restored from key: {}-cargo-{}", dice.pick(&["Linux", "macOS"]), dice.hex(64)),
        _ => format!(
            "Artifact {} has been successfully uploaded! Final size is {} bytes. Artifact ID is {}",
            dice.kebab(2),
            dice.digits(6),
            dice.digits(10)
        ),
    });
    format!("{head}\n{body}\nRun {run} finished: success")
}

pub(crate) fn build(dice: &mut Dice) -> String {
    lines(dice, 3, 10, |dice| match dice.below(7) {
        0 => format!(
            "   Compiling {} v{} (/home/ana/{}/crates/{})",
            dice.kebab(2),
            dice.version(),
            dice.noun(),
            dice.noun()
        ),
        1 => format!(
            "warning: unused variable: `{}`\n  --> {}:{}:{}",
            dice.snake(2),
            dice.path(),
            dice.below(900),
            dice.below(80)
        ),
        2 => format!(
            "#{} [{}/9] RUN apt-get install -y {}\n#{} sha256:{} 3.1MB / 3.1MB done",
            dice.below(20),
            dice.below(9),
            dice.kebab(2),
            dice.below(20),
            dice.hex(64)
        ),
        3 => format!(
            "added {} packages, and audited {} packages in {}s",
            dice.below(900),
            dice.below(900),
            dice.below(60)
        ),
        4 => format!(
            "dist/assets/{}-{}.js   {}.{} kB | gzip: {}.2 kB",
            dice.noun(),
            dice.mixed(crate::dice::ALNUM, 8),
            dice.below(900),
            dice.below(99),
            dice.below(99)
        ),
        5 => format!(
            "cc -O2 -Wall -DVERSION=\\\"{}\\\" -I../include -c {}.c -o build/{}.o",
            dice.version(),
            dice.snake(2),
            dice.snake(2)
        ),
        _ => format!(
            "go: downloading {}/{} v0.0.0-2031{}-{}",
            dice.host(),
            dice.kebab(2),
            dice.digits(10),
            dice.hex(12)
        ),
    })
}

pub(crate) fn tests(dice: &mut Dice) -> String {
    lines(dice, 3, 9, |dice| match dice.below(6) {
        0 => format!("test {}::{}_{} ... ok", dice.snake(2), dice.snake(2), dice.snake(3)),
        1 => format!(
            "tests/{}.py::test_{}[{}-{}] PASSED [ {}%]",
            dice.snake(2),
            dice.snake(3),
            dice.noun(),
            dice.below(99),
            dice.below(99)
        ),
        2 => format!("    ✓ {} ({} ms)", dice.sentence(), dice.below(900)),
        3 => format!("--- PASS: Test{}/{} (0.0{}s)", dice.pascal(3), dice.snake(2), dice.below(9)),
        4 => format!(
            "thread 'main' panicked at {}:{}:{}:\nassertion `left == right` failed\n  left: {}\n right: {}",
            dice.path(),
            dice.below(900),
            dice.below(80),
            dice.below(99),
            dice.below(99)
        ),
        _ => format!(
            "test password_{}_is_hashed ... ok\ntest token_{}_expires ... ok",
            dice.noun(),
            dice.noun()
        ),
    })
}

pub(crate) fn python_trace(dice: &mut Dice) -> String {
    let frames = lines(dice, 2, 6, |dice| {
        let (path, name, noun) = (dice.snake(2), dice.snake(2), dice.noun());
        format!(
            "  File \"/home/{}/.venv/lib/python3.12/site-packages/{noun}/{path}.py\", line {}, in {name}\n    return self._{name}({noun}, token=token, key=key)",
            dice.person(),
            dice.below(900)
        )
    });
    format!("Traceback (most recent call last):\n{frames}\nKeyError: '{}'", dice.snake(2))
}

pub(crate) fn java_trace(dice: &mut Dice) -> String {
    let frames = lines(dice, 3, 8, |dice| {
        format!(
            "\tat org.{}.{}.{}Authentication{}Provider$${}.{}({}.java:{})",
            dice.noun(),
            dice.noun(),
            dice.pascal(2),
            dice.pascal(1),
            dice.pascal(2),
            dice.camel(2),
            dice.pascal(3),
            dice.below(900)
        )
    });
    format!(
        "java.lang.IllegalStateException: {}\n{frames}\nCaused by: java.io.IOException: {}",
        dice.sentence(),
        dice.sentence()
    )
}

pub(crate) fn node_trace(dice: &mut Dice) -> String {
    let frames = lines(dice, 3, 7, |dice| {
        format!(
            "    at {}.{} (/app/node_modules/.pnpm/@{}+{}@{}/node_modules/{}/dist/{}.js:{}:{})",
            dice.pascal(2),
            dice.camel(3),
            dice.noun(),
            dice.noun(),
            dice.version(),
            dice.noun(),
            dice.kebab(2),
            dice.below(9000),
            dice.below(200)
        )
    });
    format!("TypeError: Cannot read properties of undefined (reading 'token')\n{frames}")
}

pub(crate) fn rust_trace(dice: &mut Dice) -> String {
    let mut number = 0;
    let frames = lines(dice, 3, 8, |dice| {
        number += 1;
        let (a, b, c) = (dice.snake(2), dice.pascal(2), dice.snake(2));
        let hash = dice.hex(16);
        match dice.below(2) {
            0 => format!(
                "  {number}: <{a}::{b} as core::fmt::Display>::fmt::h{hash}\n             at ./{}:{}",
                dice.path(),
                dice.below(900)
            ),
            _ => format!("  {number}: 0x{} - _ZN{}{a}{}{c}17h{hash}E", dice.hex(12), a.len(), c.len()),
        }
    });
    format!("stack backtrace:\n{frames}")
}

pub(crate) fn go_trace(dice: &mut Dice) -> String {
    let frames = lines(dice, 3, 7, |dice| {
        format!(
            "{}/{}/v2/internal.(*{}).{}(0xc000{}, {{0x{}, 0x{}}})\n\t/go/pkg/mod/{}@v{}/{}.go:{} +0x{}",
            dice.host(),
            dice.noun(),
            dice.pascal(2),
            dice.pascal(2),
            dice.hex(6),
            dice.hex(6),
            dice.hex(2),
            dice.noun(),
            dice.version(),
            dice.snake(2),
            dice.below(900),
            dice.hex(3)
        )
    });
    format!(
        "panic: runtime error: index out of range [{}] with length {}\n\ngoroutine {} [running]:\n{frames}",
        dice.below(9),
        dice.below(9),
        dice.below(900)
    )
}
