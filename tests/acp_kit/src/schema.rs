//! Every message, read by the protocol's own types: nothing in it may be lost on them.

use agent_client_protocol_schema::v1;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A notification or request that the agent sent.
pub fn check_sent(method: &str, params: &Value) {
    match method {
        "session/update" => read::<v1::SessionNotification>(params),
        "session/request_permission" => read::<v1::RequestPermissionRequest>(params),
        other => panic!("the agent sent `{other}`, which no client expects of it"),
    }
}

/// The answer to a request.
pub fn check_answer(method: &str, result: &Value) {
    match method {
        "initialize" => read::<v1::InitializeResponse>(result),
        "session/new" => read::<v1::NewSessionResponse>(result),
        "session/load" => read::<v1::LoadSessionResponse>(result),
        "session/set_mode" => read::<v1::SetSessionModeResponse>(result),
        "session/prompt" => read::<v1::PromptResponse>(result),
        _ => {}
    }
}

/// A request or notification of a client.
pub fn check_asked(method: &str, params: &Value) {
    match method {
        "initialize" => read::<v1::InitializeRequest>(params),
        "authenticate" => read::<v1::AuthenticateRequest>(params),
        "session/new" => read::<v1::NewSessionRequest>(params),
        "session/load" => read::<v1::LoadSessionRequest>(params),
        "session/set_mode" => read::<v1::SetSessionModeRequest>(params),
        "session/set_config_option" => read::<v1::SetSessionConfigOptionRequest>(params),
        "session/prompt" => read::<v1::PromptRequest>(params),
        "session/cancel" => read::<v1::CancelNotification>(params),
        // Not in the protocol any more, and still spoken.
        "session/set_model" => {}
        other => panic!("the client sent `{other}`, which no agent expects of it"),
    }
}

/// What a client answers to a question.
pub fn check_decided(result: &Value) {
    read::<v1::RequestPermissionResponse>(result);
}

/// What is answered to an agent that asks for a file or a terminal.
pub fn check_served(method: &str, result: &Value) {
    match method {
        "fs/read_text_file" => read::<v1::ReadTextFileResponse>(result),
        "fs/write_text_file" => read::<v1::WriteTextFileResponse>(result),
        "terminal/create" => read::<v1::CreateTerminalResponse>(result),
        "terminal/output" => read::<v1::TerminalOutputResponse>(result),
        "terminal/wait_for_exit" => read::<v1::WaitForTerminalExitResponse>(result),
        "terminal/kill" => read::<v1::KillTerminalResponse>(result),
        "terminal/release" => read::<v1::ReleaseTerminalResponse>(result),
        other => panic!("no client serves `{other}`"),
    }
}

/// Those types forgive: what they do not understand becomes a default. So what they write again is compared.
fn read<T: DeserializeOwned + Serialize>(ours: &Value) {
    let theirs: T = serde_json::from_value(ours.clone()).unwrap_or_else(|error| panic!("{error}: {ours}"));
    let theirs = serde_json::to_value(theirs).unwrap();
    if let Some(lost) = lost(ours, &theirs, "") {
        panic!("`{lost}` of the agent's message is not understood: {ours}\nread as {theirs}");
    }
}

/// The first place whose value is not there again.
fn lost(ours: &Value, theirs: &Value, place: &str) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => ours.iter().find_map(|(name, value)| {
            let place = format!("{place}/{name}");
            match theirs.get(name) {
                Some(there) => lost(value, there, &place),
                None if is_default(name, value) => None,
                None => Some(place),
            }
        }),
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            ours.iter().zip(theirs).find_map(|(one, other)| lost(one, other, &format!("{place}[]")))
        }
        _ => (ours != theirs).then(|| place.to_owned()),
    }
}

/// What is not written because it goes without saying.
fn is_default(name: &str, value: &Value) -> bool {
    let usual = [("kind", "other"), ("status", "pending")];
    value.is_null()
        || value.as_array().is_some_and(Vec::is_empty)
        || usual.iter().any(|(one, word)| *one == name && value == word)
}
