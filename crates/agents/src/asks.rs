//! A request -> whether a model is asked by it, in one of the formats that models are spoken to in.

/// How the paths of such requests end: Anthropic's messages, OpenAI's responses and completions, Gemini's, Ollama's.
const ENDS: [&str; 7] = [
    "/v1/messages",
    "/responses",
    "/chat/completions",
    ":generateContent",
    ":streamGenerateContent",
    "/api/chat",
    "/api/generate",
];

/// Whether a request of this method, to this path without its query, asks a model.
#[must_use]
pub fn asks_a_model(method: &str, path: &str) -> bool {
    method == "POST" && ENDS.iter().any(|end| path.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asks_a_model_is_told_from_what_is_only_sent_to_its_host() {
        for path in [
            "/v1/messages",
            "/v1/responses",
            "/backend-api/codex/responses",
            "/v1/chat/completions",
            "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
        ] {
            assert!(asks_a_model("POST", path), "{path}");
            assert!(!asks_a_model("GET", path), "{path}: a WebSocket, of which nothing is known");
        }
        for path in ["/v1/messages/count_tokens", "/api/event_logging/v2/batch", "/v1/models", "/"] {
            assert!(!asks_a_model("POST", path), "{path}");
        }
    }
}
