//! Puts a secret where secrets are met: in prose, files, commands, logs, source code.

use crate::dice::Dice;
use crate::encode::{json, shell, single, url};
use crate::families::Make;
use crate::sample;
use crate::words::capital;
use crate::writings;

pub(crate) const PLACES: [&str; 18] = [
    "alone",
    "prose",
    "JSON",
    "environment",
    "YAML",
    "TOML",
    "query",
    "header dump",
    "argv",
    "shell history",
    "log line",
    "diff line",
    "Python",
    "JavaScript",
    "Go",
    "URL",
    "JSON in JSON",
    "chunked",
];

/// The marked text, or nothing where such a thing is not met.
pub(crate) fn render(place: &'static str, make: &Make, dice: &mut Dice) -> Option<String> {
    if place == "chunked" {
        let inner = dice.pick(&["prose", "JSON", "environment", "log line", "Python"]);
        return render(inner, make, dice);
    }
    if writings::PLACES.contains(&place) {
        return writings::render(place, make, dice);
    }
    match make {
        Make::Token(make) => {
            let token = make(dice);
            // Written out as bytes, a character that shows nothing does show.
            let odd = place == "query" && sample::visible(&token) != token;
            (!odd).then(|| token_in(place, &token, dice))
        }
        Make::Run(make) => {
            let run = make(dice);
            (!["URL", "header dump"].contains(&place)).then(|| token_in(place, &run, dice))
        }
        Make::Url(make) => {
            let url = make(dice);
            (!["URL", "query"].contains(&place)).then(|| token_in(place, &url, dice))
        }
        Make::Named(make) => {
            let (name, value) = make(dice);
            Some(named_in(place, &name, &value, dice))
        }
        Make::Header(make) => {
            let (name, value) = make(dice);
            header_in(place, &name, &value, dice)
        }
        Make::Block(make) => {
            let block = make(dice);
            block_in(place, &block, dice)
        }
    }
}

/// A name that says nothing about the value.
fn neutral(dice: &mut Dice) -> &'static str {
    dice.pick(&["value", "upstream", "data", "note", "target", "param", "remark"])
}

fn log_start(dice: &mut Dice) -> String {
    let (time, noun) = (dice.time(), dice.noun());
    match dice.below(3) {
        0 => format!("{time} INFO {noun}:"),
        1 => format!("[{time}] {noun}.{} DEBUG -", dice.noun()),
        _ => format!("time={time} level=warn component={noun}"),
    }
}

fn token_in(place: &str, token: &str, dice: &mut Dice) -> String {
    let (noun, host) = (dice.noun(), dice.host());
    let (name, other) = (neutral(dice), dice.snake(2));
    match place {
        "alone" => token.to_owned(),
        "prose" => {
            let (before, after) = (dice.sentence(), dice.sentence());
            match dice.below(4) {
                0 => format!("{before}. Please use {token} for the {noun}. {after}."),
                1 => format!("{before}: I found `{token}` in the {noun}. {after}."),
                2 => format!("{before} (the key is {token}), and {after}."),
                _ => format!("{before}.\n\n    {token}\n\n{after}."),
            }
        }
        "JSON" => match dice.below(2) {
            0 => {
                format!("{{\"{other}\": {}, \"{name}\": \"{}\", \"ok\": true}}", dice.below(999), json(token))
            }
            _ => format!("{{\n  \"{other}\": [\"{noun}\", \"{}\"],\n  \"host\": \"{host}\"\n}}", json(token)),
        },
        "environment" => {
            let upper = name.to_uppercase();
            match dice.below(3) {
                0 => format!("HOME=/tmp\n{upper}={}\nLANG=C", shell(token)),
                1 => format!("export {upper}=\"{token}\""),
                _ => format!("{upper}='{token}'"),
            }
        }
        "YAML" => match dice.below(3) {
            0 => format!("{noun}:\n  host: {host}\n  {name}: {token}\n"),
            1 => format!("{noun}:\n  - name: {other}\n    {name}: \"{token}\"\n"),
            _ => format!("args:\n  - --with\n  - {token}\n"),
        },
        "TOML" => format!("[{noun}]\nhost = \"{host}\"\n{name} = \"{token}\"\n"),
        "query" => format!("GET /{noun}?page=2&{name}={}&sort=asc HTTP/1.1", url(token)),
        "header dump" => format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-{}: {token}\r\nContent-Length: {}\r\n",
            capital(name),
            dice.below(999)
        ),
        "argv" => match dice.below(3) {
            0 => format!("{noun} --verbose --with {} {}", shell(token), dice.path()),
            1 => format!("[\"{noun}\",\"--with\",\"{}\",\"{}\"]", json(token), dice.path()),
            _ => format!("argv: ['{noun}', '{}', '-v']", single(token)),
        },
        "shell history" => match dice.below(3) {
            0 => {
                format!(
                    " {}  curl -s https://{host}/{noun} -d {name}={}",
                    dice.between(100, 2000),
                    shell(token)
                )
            }
            1 => format!(": 1{}:0;{noun} {}", dice.digits(9), shell(token)),
            _ => format!("cd {noun}\necho {} | {noun} login\nls -la", shell(token)),
        },
        "log line" => {
            let start = log_start(dice);
            match dice.below(3) {
                0 => format!("{start} using {token} for {host}"),
                1 => format!("{start} {name}={token} status=200"),
                _ => format!("{start} could not reach {host} with \"{token}\": timed out"),
            }
        }
        "diff line" => format!(
            "@@ -12,7 +12,7 @@ def {other}():\n-    client = Client(None)\n+    client = Client(\"{token}\")\n     return client"
        ),
        "Python" => match dice.below(2) {
            0 => format!("import {noun}\n\nclient = {noun}.Client(\"{token}\", timeout=30)\n"),
            _ => format!("{name} = '{}'\nprint(len({name}))\n", single(token)),
        },
        "JavaScript" => match dice.below(2) {
            0 => format!("const client = new {}('{}');\nawait client.open();", capital(noun), single(token)),
            _ => format!("export default {{ {name}: `{token}`, host: '{host}' }};"),
        },
        "Go" => match dice.below(2) {
            0 => format!("c := {noun}.New(\"{token}\")\nif err := c.Open(); err != nil {{\n\treturn err\n}}"),
            _ => format!("const {} = `{token}`", capital(name)),
        },
        "URL" => format!("https://{host}/{noun}/{token}/{other}?page=1"),
        "JSON in JSON" => nested(&format!("{{\"{other}\":\"{noun}\",\"{name}\":\"{}\"}}", json(token)), dice),
        _ => unreachable!("{place}"),
    }
}

fn named_in(place: &str, name: &str, value: &str, dice: &mut Dice) -> String {
    let (noun, host, other) = (dice.noun(), dice.host(), dice.snake(2));
    let (upper, kebab) = (name.to_uppercase(), name.replace('_', "-"));
    let (camel, pascal) = (camel(name), capital(&camel(name)));
    let bare = if value.contains([' ', '"', '\'', '\\', '&', '$']) {
        format!("\"{}\"", json(value))
    } else {
        value.to_owned()
    };
    match place {
        "alone" => match dice.below(3) {
            0 => format!("{name}={bare}"),
            1 => format!("{name}: {bare}"),
            _ => format!("{upper}={bare}"),
        },
        "prose" => {
            let (before, after) = (dice.sentence(), dice.sentence());
            match dice.below(3) {
                0 => format!("{before}; with {name}={bare} it works. {after}."),
                1 => format!("{before}. {}: {bare}\n{after}.", capital(name)),
                _ => format!("{before}. Set `{upper}={bare}` and {after}."),
            }
        }
        "JSON" => match dice.below(3) {
            0 => format!("{{\"{other}\":\"{noun}\",\"{name}\":\"{}\",\"port\":5432}}", json(value)),
            1 => format!("{{\n  \"{camel}\": \"{}\",\n  \"host\": \"{host}\"\n}}", json(value)),
            _ => format!("{{\"{noun}\": {{\"{name}\" : \"{}\"}}}}", json(value)),
        },
        "environment" => match dice.below(3) {
            0 => format!("PORT=8080\n{upper}={bare}\nHOST={host}"),
            1 => format!("export {upper}={}", shell(value)),
            _ => format!("{upper}=\"{}\"", json(value)),
        },
        "YAML" => match dice.below(3) {
            0 => format!("{noun}:\n  host: {host}\n  {name}: {bare}\n  port: 5432\n"),
            1 => format!("{kebab}: \"{}\"\n", json(value)),
            _ => format!("environment:\n  - {upper}={bare}\n  - HOST={host}\n"),
        },
        "TOML" => format!("[{noun}]\nhost = \"{host}\"\n{name} = \"{}\"\n", json(value)),
        "query" => format!("GET /{noun}?page=2&{name}={}&sort=asc HTTP/1.1", url(value)),
        "header dump" => format!(
            "POST /{noun} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\nuser={}&{name}={}",
            dice.person(),
            url(value)
        ),
        "argv" => match dice.below(4) {
            0 => format!("{noun} --{kebab} {} --verbose", shell(value)),
            1 => format!("{noun} --{kebab}={} {}", shell(value), dice.path()),
            2 => format!("[\"{noun}\",\"--{kebab}\",\"{}\",\"--verbose\"]", json(value)),
            _ => format!("argv: ['{noun}', '--{kebab}={}']", single(value)),
        },
        "shell history" => match dice.below(3) {
            0 => format!(" {}  export {upper}={}", dice.between(100, 2000), shell(value)),
            1 => format!(": 1{}:0;{upper}={} ./{noun}.sh", dice.digits(9), shell(value)),
            _ => format!("cd {noun}\n{noun} login --{kebab} {}\nls -la", shell(value)),
        },
        "log line" => {
            let start = log_start(dice);
            match dice.below(3) {
                0 => format!("{start} {name}={bare} host={host}"),
                1 => format!("{start} connecting with {name}: {bare}"),
                _ => format!("{start} config={{\"{name}\":\"{}\",\"host\":\"{host}\"}}", json(value)),
            }
        }
        "diff line" => match dice.below(2) {
            0 => format!("@@ -1,3 +1,3 @@\n HOST={host}\n-{upper}=\n+{upper}={bare}\n PORT=8080"),
            _ => {
                format!(
                    "@@ -4,2 +4,3 @@ {noun}:\n   host: {host}\n+  {name}: \"{}\"\n   port: 1",
                    json(value)
                )
            }
        },
        "Python" => match dice.below(3) {
            0 => format!("{upper} = \"{}\"\nHOST = \"{host}\"\n", json(value)),
            1 => format!("client = connect(host=\"{host}\", {name}='{}')\n", single(value)),
            _ => format!("settings[\"{name}\"] = \"{}\"\n", json(value)),
        },
        "JavaScript" => match dice.below(3) {
            0 => format!("const {camel} = '{}';", single(value)),
            1 => format!("const pool = new Pool({{ host: '{host}', {camel}: \"{}\" }});", json(value)),
            _ => format!("process.env.{upper} = \"{}\";", json(value)),
        },
        "Go" => match dice.below(2) {
            0 => format!(
                "cfg := {noun}.Config{{\n\tHost:     \"{host}\",\n\t{pascal}: \"{}\",\n}}",
                json(value)
            ),
            _ => format!("{camel} := \"{}\"", json(value)),
        },
        "URL" => format!("https://{host}/{noun}/{other}?{name}={}#top", url(value)),
        "JSON in JSON" => nested(&format!("{{\"{name}\":\"{}\",\"host\":\"{host}\"}}", json(value)), dice),
        _ => unreachable!("{place}"),
    }
}

fn header_in(place: &str, name: &str, value: &str, dice: &mut Dice) -> Option<String> {
    let (noun, host) = (dice.noun(), dice.host());
    let lower = name.to_lowercase();
    Some(match place {
        "alone" => format!("{name}: {value}"),
        "prose" => {
            let (before, after) = (dice.sentence(), dice.sentence());
            format!("{before}. The request had `{name}: {value}` in it. {after}.")
        }
        "JSON" => match dice.below(2) {
            0 => format!(
                "{{\"headers\":{{\"accept\":\"*/*\",\"{lower}\":\"{}\"}},\"url\":\"/\"}}",
                json(value)
            ),
            _ => format!("{{\n  \"{name}\": \"{}\",\n  \"Host\": \"{host}\"\n}}", json(value)),
        },
        "environment" => format!("CURL_HEADER=\"{name}: {value}\""),
        "YAML" => format!("headers:\n  Accept: text/plain\n  {name}: {value}\n"),
        "TOML" => format!("[headers]\n{name} = \"{}\"\n", json(value)),
        "header dump" => match dice.below(2) {
            0 => format!(
                "GET /{noun} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: curl/8\r\n{name}: {value}\r\nAccept: */*\r\n"
            ),
            _ => format!(
                "> GET /{noun} HTTP/2\n> Host: {host}\n> {lower}: {value}\n> accept: */*\n>\n< HTTP/2 200"
            ),
        },
        "argv" => match dice.below(3) {
            0 => format!("curl -sS -H '{name}: {value}' https://{host}/{noun}"),
            1 => format!("[\"curl\",\"-H\",\"{name}: {}\",\"https://{host}\"]", json(value)),
            _ => format!("http GET https://{host}/{noun} '{name}:{value}'"),
        },
        "shell history" => {
            let number = dice.between(100, 2000);
            format!(" {number}  curl -X POST --header \"{name}: {value}\" https://{host}/{noun}")
        }
        "log line" => {
            let start = log_start(dice);
            match dice.below(3) {
                0 => format!("{start} request headers: {{'{name}': '{}', 'Accept': '*/*'}}", single(value)),
                1 => format!("{start} sent {name}: {value}"),
                _ => format!("{start} headers=[(\"{lower}\", \"{}\")]", json(value)),
            }
        }
        "diff line" => {
            format!("@@ -2,3 +2,4 @@\n curl -sS \\\n+  -H \"{name}: {value}\" \\\n   https://{host}/")
        }
        "Python" => match dice.below(2) {
            0 => format!("r = requests.get(url, headers={{\"{name}\": \"{}\"}}, timeout=5)\n", json(value)),
            _ => format!("session.headers['{name}'] = '{}'\n", single(value)),
        },
        "JavaScript" => match dice.below(2) {
            0 => format!("await fetch(url, {{ headers: {{ '{name}': '{}' }} }});", single(value)),
            _ => format!("headers.set(\"{name}\", \"{}\");", json(value)),
        },
        "Go" => format!("req.Header.Set(\"{name}\", \"{}\")", json(value)),
        "JSON in JSON" => nested(&format!("{{\"{name}\":\"{}\",\"Host\":\"{host}\"}}", json(value)), dice),
        _ => return None,
    })
}

fn block_in(place: &str, block: &str, dice: &mut Dice) -> Option<String> {
    let (noun, number) = (dice.noun(), dice.below(99));
    let lines = |before: &str| {
        block
            .lines()
            .map(|line| format!("{before}{line}").trim_end().to_owned())
            .collect::<Vec<_>>()
            .join("\n")
    };
    Some(match place {
        "alone" => block.to_owned(),
        "prose" => {
            let before = dice.sentence();
            format!("{before}:\n\n{block}\n\n{}.", dice.sentence())
        }
        "JSON" => format!("{{\"{noun}\": {number}, \"content\": \"{}\\n\"}}", json(block)),
        "environment" => match dice.below(2) {
            0 => format!("DEPLOY_FILE=\"{block}\"\nLANG=C"),
            _ => format!("DEPLOY_FILE={}", json(block)),
        },
        "YAML" => format!("{noun}:\n  file: |\n{}\n  mode: 0600\n", lines("    ")),
        "TOML" => format!("[{noun}]\nfile = '''\n{block}\n'''\n"),
        "shell history" => format!("cat > {noun}.txt <<'EOF'\n{block}\nEOF\nchmod 600 {noun}.txt"),
        "log line" => {
            let start = log_start(dice);
            format!("{start} read \"{}\" from {noun}", json(block))
        }
        "diff line" => {
            let many = block.lines().count();
            format!("--- /dev/null\n+++ b/{noun}.txt\n@@ -0,0 +1,{many} @@\n{}", lines("+"))
        }
        "Python" => format!("FILE = \"\"\"{block}\n\"\"\"\n"),
        "JavaScript" => match dice.below(2) {
            0 => format!("const file = `{block}\n`;"),
            _ => format!("const file = \"{}\";", json(block)),
        },
        "Go" => format!("const file = `{block}\n`"),
        "JSON in JSON" => nested(&format!("{{\"file\":\"{}\"}}", json(block)), dice),
        _ => return None,
    })
}

/// As a tool's answer stands in a transcript.
fn nested(inner: &str, dice: &mut Dice) -> String {
    let inner = json(inner);
    match dice.below(3) {
        0 => format!("{{\"type\":\"tool_result\",\"content\":\"{inner}\"}}"),
        1 => format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"text\":\"{inner}\"}}}}", dice.below(99)),
        _ => format!("{{\"level\":\"info\",\"msg\":\"body: {inner}\"}}"),
    }
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |all, word| all + &capital(word))
}
