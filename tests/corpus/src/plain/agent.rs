//! What agents exchange with models and tools.

use super::lines;
use crate::dice::{ALNUM, Dice};
use crate::encode::json;

/// Ids as model providers make them.
fn id(dice: &mut Dice, prefix: &str) -> String {
    format!("{prefix}{}", dice.mixed(ALNUM, 22))
}

pub(crate) fn transcript(dice: &mut Dice) -> String {
    let session = dice.uuid();
    lines(dice, 1, 4, |dice| {
        let (uuid, parent, time) = (dice.uuid(), dice.uuid(), dice.time());
        let (message, text) = (id(dice, "msg_01"), json(&dice.paragraph()));
        let (input, output) = (dice.below(90_000), dice.below(4_000));
        format!(
            "{{\"parentUuid\":\"{parent}\",\"sessionId\":\"{session}\",\"type\":\"assistant\",\"message\":{{\"id\":\"{message}\",\"role\":\"assistant\",\
             \"model\":\"sonnet-large-20310514\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\"usage\":{{\"input_tokens\":{input},\
             \"output_tokens\":{output},\"cache_read_input_tokens\":0}}}},\"uuid\":\"{uuid}\",\"timestamp\":\"{time}\",\"cwd\":\"/home/ana/{}\"}}",
            dice.noun()
        )
    })
}

pub(crate) fn tool_call(dice: &mut Dice) -> String {
    let (id, path) = (id(dice, "toolu_01"), dice.path());
    let (snake, noun) = (dice.snake(3), dice.noun());
    match dice.below(4) {
        0 => format!(
            "{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"Edit\",\"input\":{{\"file_path\":\"/home/ana/{noun}/{path}\",\"old_string\":\"fn {snake}() {{\\n\",\
             \"new_string\":\"pub fn {snake}() {{\\n\"}}}}"
        ),
        1 => format!(
            "{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"Bash\",\"input\":{{\"command\":\"grep -rn '{snake}' src | head -{}\",\"description\":\"{}\"}}}}",
            dice.between(5, 50),
            dice.sentence()
        ),
        2 => format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/call\",\"params\":{{\"name\":\"{snake}\",\"arguments\":{{\"path\":\"{path}\",\"limit\":50}}}}}}",
            dice.below(900)
        ),
        _ => {
            let call = format!("call_{}", dice.mixed(ALNUM, 24));
            format!(
                "{{\"id\":\"{call}\",\"type\":\"function\",\"function\":{{\"name\":\"{snake}\",\"arguments\":\"{{\\\"path\\\":\\\"{path}\\\"}}\"}}}}"
            )
        }
    }
}

pub(crate) fn tool_result(dice: &mut Dice) -> String {
    let call = id(dice, "toolu_01");
    let body = match dice.below(3) {
        0 => super::code::rust(dice),
        1 => super::logs::build(dice),
        _ => lines(dice, 3, 9, |dice| {
            format!("{}:{}:    let {} = {}();", dice.path(), dice.below(999), dice.noun(), dice.snake(2))
        }),
    };
    format!(
        "{{\"tool_use_id\":\"{call}\",\"type\":\"tool_result\",\"content\":\"{}\",\"is_error\":false}}",
        json(&body)
    )
}

pub(crate) fn api_answer(dice: &mut Dice) -> String {
    let (completion, text) = (dice.mixed(ALNUM, 29), json(&dice.paragraph()));
    let (time, print, total) = (dice.digits(9), dice.hex(10), dice.below(99_999));
    match dice.below(3) {
        0 => format!(
            "{{\"id\":\"chatcmpl-{completion}\",\"object\":\"chat.completion\",\"created\":1{time},\"model\":\"large-mini\",\"choices\":[{{\"index\":0,\"message\":\
             {{\"role\":\"assistant\",\"content\":\"{text}\"}},\"finish_reason\":\"stop\"}}],\"usage\":{{\"prompt_tokens\":{total},\"completion_tokens\":87,\
             \"total_tokens\":{total}}},\"system_fingerprint\":\"fp_{print}\"}}"
        ),
        1 => {
            let id = id(dice, "msg_01");
            format!(
                "event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{{\"id\":\"{id}\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\
                 \"stop_reason\":null}}}}\n\nevent: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\
                 \"text\":\"{text}\"}}}}\n"
            )
        }
        _ => {
            let id = id(dice, "req_01");
            format!(
                "{{\"type\":\"error\",\"error\":{{\"type\":\"rate_limit_error\",\"message\":\"this would exceed your limit of {total} input tokens per minute\"}},\
                 \"request_id\":\"{id}\"}}"
            )
        }
    }
}

pub(crate) fn shell_session(dice: &mut Dice) -> String {
    let (who, noun) = (dice.person(), dice.noun());
    lines(dice, 2, 5, |dice| {
        let (path, snake) = (dice.path(), dice.snake(2));
        let (size, number) = (dice.below(90_000), dice.below(400));
        match dice.below(8) {
            0 => format!(
                "{who}@{noun}:~/{noun}$ ls -la {path}\n-rw-r--r-- 1 {who} {who} {size} Feb  3 10:14 {path}"
            ),
            1 => format!("$ wc -l {path}\n{number} {path}"),
            2 => format!("$ rg -n {snake} src\n{path}:{number}:    {snake}(&mut {}, {size});", dice.noun()),
            3 => format!("\u{1b}[32m{who}\u{1b}[0m $ cd /home/{who}/{noun} && make test\nok {number} tests"),
            4 => format!(
                "$ docker ps\n{}   {noun}:{}   \"/entrypoint\"   2 hours ago   Up 2 hours",
                dice.hex(12),
                dice.version()
            ),
            5 => format!(
                "$ kubectl get pods\n{}-{}-{}   1/1   Running   0   3d",
                dice.kebab(2),
                dice.hex(10),
                dice.run("bcdfghjklmnpqrstvwxz2456789", 5)
            ),
            6 => format!("$ git rev-parse HEAD\n{}", dice.hex(40)),
            _ => format!("$ sha256sum {path}\n{}  {path}", dice.hex(64)),
        }
    })
}
