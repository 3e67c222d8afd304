//! Secrets that come along with an env.

use serde_json::json;
use tests::Host;

use crate::registry::{VALUE, env};

/// REG-04: `secrets` that are said to be nothing are as not said: what comes along is referred to all the same.
#[test]
fn reg_04_an_inline_secret_is_referred_to_where_secrets_are_null() {
    let host = Host::start();
    let client = &host.owner().client;
    let plain = client.register_env(&env("plain", json!({}), &[("TOKEN", VALUE, None)])).unwrap();
    let null =
        client.register_env(&env("null", json!({"secrets": null}), &[("TOKEN", VALUE, None)])).unwrap();
    assert_eq!(null.hash, plain.hash);
    let shown = client.artifact("env", "null").unwrap().document.unwrap();
    assert!(shown["secrets"]["TOKEN"].as_str().unwrap().starts_with("ENV_TOKEN_"), "{shown}");
}
