//! Further places: what programs take on their command lines, markup, values below their names, and what programs print of
//! their own values.

use crate::dice::{ALNUM, Dice};
use crate::encode::{json, markup, shell, single};
use crate::families::Make;
use crate::sample::hidden;
use crate::words::capital;

pub(crate) const PLACES: [&str; 4] = ["password option", "markup", "value below its name", "printed value"];

/// The marked text, or nothing where such a thing is not met.
pub(crate) fn render(place: &str, make: &Make, dice: &mut Dice) -> Option<String> {
    match make {
        Make::Token(make) => {
            let token = make(dice);
            token_in(place, &token, dice)
        }
        Make::Run(_) | Make::Url(_) => None,
        Make::Named(make) => {
            let (name, value) = make(dice);
            named_in(place, &name, &value, dice)
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

fn token_in(place: &str, token: &str, dice: &mut Dice) -> Option<String> {
    match place {
        "password option" => Some(option(token, dice)),
        "markup" => {
            let noun = dice.noun();
            Some(match dice.below(3) {
                0 => format!("<{noun}><value>{}</value></{noun}>", markup(token)),
                1 => format!("<{noun} id=\"{}\" data=\"{}\"/>", dice.below(99), markup(token)),
                _ => format!("<pre>{noun}: {}<br></pre>", markup(token)),
            })
        }
        "value below its name" => Some(format!("{}:\n  - {token}\n  - {}\n", dice.noun(), dice.noun())),
        _ => None,
    }
}

/// A program that takes a password, with this one.
fn option(value: &str, dice: &mut Dice) -> String {
    let (who, host, noun) = (dice.person(), dice.host(), dice.noun());
    let word = shell(value);
    match dice.below(12) {
        0 => format!("mysql -h {host} -u {who} -p{word} {noun}"),
        1 => format!("mysqldump --user={who} --password={word} {noun} > {noun}.sql"),
        2 => format!("docker login -u {who} -p {word} {host}"),
        3 => format!("redis-cli -h {host} -a {word} --scan"),
        4 => format!("curl -sS --user {} https://{host}/{noun}", shell(&format!("{who}:{value}"))),
        5 => format!("sshpass -p {word} ssh {who}@{host} uptime"),
        6 => format!("az login --service-principal -u {noun} -p {word} --tenant {host}"),
        7 => format!("htpasswd -bB /etc/{noun}/users {who} {word}"),
        8 => format!("PGPASSWORD={word} pg_dump -h {host} -U {who} {noun}"),
        9 => format!("mongosh --host {host} -u {who} -p {word} {noun}"),
        10 => format!("{noun} --token {word} --verbose {}", dice.path()),
        _ => format!("[\"docker\", \"login\", \"-u\", \"{who}\", \"-p\", \"{}\", \"{host}\"]", json(value)),
    }
}

fn named_in(place: &str, name: &str, value: &str, dice: &mut Dice) -> Option<String> {
    let (noun, host, port) = (dice.noun(), dice.host(), dice.between(1024, 9999));
    let (upper, pascal) = (name.to_uppercase(), name.split('_').map(capital).collect::<String>());
    let second = hidden(&dice.mixed(ALNUM, 20));
    let is_word = !value.contains([' ', '"', '\'', '\\', '&', '$', '#', '%', '*', '!', '@']);
    Some(match place {
        "password option" => option(value, dice),
        "markup" => match dice.below(6) {
            0 => format!("<{noun}><host>{host}</host><{name}>{}</{name}></{noun}>", markup(value)),
            1 => format!("<{noun} host=\"{host}\" {name}=\"{}\" port=\"{port}\"/>", markup(value)),
            2 => format!("<property name=\"{name}\" value=\"{}\"/>", markup(value)),
            3 => format!("<add key=\"{pascal}\" value=\"{}\" />", markup(value)),
            4 => {
                format!("<input type=\"password\" id=\"{noun}\" name=\"{name}\" value=\"{}\">", markup(value))
            }
            _ => format!("<dict><key>{name}</key>\n<string>{}</string></dict>", markup(value)),
        },
        "value below its name" => match dice.below(6) {
            0 if name != "auth" => format!("{noun}:\n  {name}: |\n    {value}\n  host: {host}\n"),
            1 | 0 => format!(
                "env:\n  - name: {upper}\n    value: \"{}\"\n  - name: PORT\n    value: \"{port}\"\n",
                json(value)
            ),
            2 => format!("[\n  {{\n    \"name\": \"{upper}\",\n    \"value\": \"{}\"\n  }}\n]", json(value)),
            3 => format!("variable \"{name}\" {{\n  type = string\n  default = \"{}\"\n}}\n", json(value)),
            4 if is_word && name != "auth" => format!("{name}s:\n  - {value}\n  - {second}\nhost: {host}\n"),
            5 if is_word && name != "auth" => {
                format!(
                    "{{\n  \"{name}s\": [\n    \"{value}\",\n    \"{second}\"\n  ],\n  \"host\": \"{host}\"\n}}"
                )
            }
            _ => format!("environment:\n  - HOST={host}\n  - \"{upper}={}\"\n", json(value)),
        },
        "printed value" => match dice.below(8) {
            0 => format!("{pascal}Config {{ host: \"{host}\", {name}: \"{}\", port: {port} }}", json(value)),
            1 => format!("{pascal}Config {{ host: Some(\"{host}\"), {name}: Some(\"{}\") }}", json(value)),
            2 => format!("{noun}(host='{host}', {name}='{}', port={port})", single(value)),
            3 => format!("array('host' => '{host}', '{name}' => '{}', 'port' => {port});", single(value)),
            4 => format!("{{:host => \"{host}\", :{name} => \"{}\", :port => {port}}}", json(value)),
            5 => format!("define('{upper}', '{}');", single(value)),
            6 => format!("CREATE USER {noun} WITH PASSWORD '{}';", value.replace('\'', "''")),
            _ => format!("ALTER USER '{noun}'@'%' IDENTIFIED BY '{}';", value.replace('\'', "''")),
        },
        _ => return None,
    })
}

fn header_in(place: &str, name: &str, value: &str, dice: &mut Dice) -> Option<String> {
    let (host, noun) = (dice.host(), dice.noun());
    let lower = name.to_lowercase();
    Some(match place {
        "markup" => format!("<pre>GET /{noun}<br>\n{name}: {}<br>\nHost: {host}<br>\n</pre>", markup(value)),
        "printed value" => match dice.below(6) {
            0 => format!("map[Accept:[*/*] {name}:[{value}] Host:[{host}]]"),
            1 => format!("{{\"host\": \"{host}\", \"{lower}\": \"{}\", \"accept\": \"*/*\"}}", json(value)),
            2 => format!("{{'Host': '{host}', '{name}': '{}', 'Accept': '*/*'}}", single(value)),
            3 => format!("[(b'host', b'{host}'), (b'{lower}', b'{}')]", single(value)),
            4 => format!(
                "http.Header{{\"{name}\":[]string{{\"{}\"}}, \"Host\":[]string{{\"{host}\"}}}}",
                json(value)
            ),
            _ => format!("{{\"name\": \"{name}\", \"value\": \"{}\"}}", json(value)),
        },
        _ => return None,
    })
}

fn block_in(place: &str, block: &str, dice: &mut Dice) -> Option<String> {
    let noun = dice.noun();
    let joined = |after: &str| block.lines().map(|line| format!("{line}{after}")).collect::<String>();
    match place {
        "markup" if !block.starts_with('{') => Some(match dice.below(4) {
            0 => format!("<{noun}>{}</{noun}>", joined("&#10;")),
            1 => format!("<{noun} key=\"{}\"/>", joined("&#xA;")),
            2 => format!("<pre>\n{}</pre>", joined("<br>\n")),
            _ => format!("<{noun}>\n{}</{noun}>", joined("&#13;\n")),
        }),
        // The first line was cut away.
        "value below its name"
            if block.contains("-----END ") && !block.contains("PGP") && !block.starts_with('{') =>
        {
            let (_, rest) = block.split_once('\n')?;
            Some(match dice.below(2) {
                0 => format!("$ tail -n +2 {noun}.pem\n{rest}\n"),
                _ => format!(
                    "{noun}: |\n{}",
                    rest.lines().map(|line| format!("  {line}\n")).collect::<String>()
                ),
            })
        }
        _ => None,
    }
}
