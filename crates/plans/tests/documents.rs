//! ORC-01: a plan is checked completely before anything runs, and everything that is wrong is told at once.
#![expect(clippy::unwrap_used, reason = "documents of the test are what they say")]

use plans::{Effect, Faults, Format, MOST_FAULTS, MOST_ITEMS, Plan};
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(document: &Value) -> Result<Plan, Faults> {
    Plan::read(document.to_string().as_bytes(), Format::Json)
}

fn task(id: &str, after: &[&str]) -> Value {
    json!({ "id": id, "after": after, "effect": "read", "dispatch": { "subagent": "worker" } })
}

fn plan(items: &[Value]) -> Value {
    json!({ "version": 1, "items": items })
}

/// Each fault as its place and its code.
fn told(document: &Value) -> Vec<String> {
    let faults = read(document).unwrap_err();
    faults.iter().map(|fault| format!("{} {}", fault.at, fault.what.code())).collect()
}

#[test]
fn orc_01_every_fault_is_told_at_once_with_its_place() {
    let document = json!({
        "version": 2, "colour": "red", "concurrency": 0,
        "items": [
            task("a", &["b"]),
            task("b", &["c"]),
            task("c", &["a"]),
            task("a", &[]),
            task("A", &[]),
            task("d", &["nobody", "b", "b"]),
            { "id": "e", "effect": "pure", "dispatch": { "subagent": "s" }, "needs": [{ "item": "a", "patch": true }] },
            { "id": "f", "after": [{ "item": "d", "on": "sometimes" }], "dispatch": { "subagent": "s" } },
            { "id": "g", "pattern": "swarm", "dispatch": { "subagent": "s" } },
            { "id": "h", "pattern": "quorum", "threshold": 3, "reviewers": [{ "dispatch": { "subagent": "s" } }] },
            { "id": "i", "after": ["h"], "dispatch": { "subagent": "s" }, "needs": [{ "item": "h", "patch": true }] },
            { "id": "j", "after": [{ "item": "d", "on": "ended" }], "dispatch": { "subagent": "s" },
              "needs": [{ "item": "d", "output": "x.json" }, { "item": "d", "output": "../x", "as": "y" }] },
            { "id": "k/l", "dispatch": {} },
            { "id": "m", "after": ["m"], "dispatch": { "subagent": "s", "dispatchId": "x", "timeoutSeconds": 86_401,
              "secrets": { "KEY": { "value": "hunter2" } }, "capabilities": [], "addCapabilities": [], "colour": 1 } },
            17,
        ],
    });
    assert_eq!(
        told(&document),
        [
            "/items/0/after cycle",
            "/items/3/id duplicate_id",
            "/items/4/id alike_id",
            "/items/5/after/0 unknown_item",
            "/items/5/after/2 twice",
            "/items/6/needs/0 need_without_dependency",
            "/items/7/after/0/on edge_tag",
            "/items/8/pattern pattern",
            "/items/9/threshold threshold",
            "/items/10/needs/0 no_product",
            "/items/11/needs/0 need_of_failure",
            "/items/11/needs/1/output word",
            "/items/12/id word",
            "/items/12/dispatch missing",
            "/items/13/after cycle",
            "/items/13/dispatch together",
            "/items/13/dispatch/colour unknown_key",
            "/items/13/dispatch/secrets/KEY inline_secret",
            "/items/13/dispatch/dispatchId set_by_run",
            "/items/13/dispatch/timeoutSeconds bounds",
            "/items/14 kind",
            "/colour unknown_key",
            "/version bounds",
            "/concurrency bounds",
        ]
    );
    let text = read(&document).unwrap_err().to_string();
    for words in ["`a` → `b` → `c` → `a`", "`m` → `m`", "add `a` to `after`", "from 1 to 86400"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
    // The same again, in the same order.
    assert_eq!(told(&document), told(&document));
}

#[test]
fn orc_01_names_that_nobody_can_tell_apart_are_refused() {
    // Cyrillic, a space of no width, capitals, a part of another item.
    for id in ["\u{430}", "a\u{200b}", "ａ", "a b", "", "-", "../a", "a/b", &"x".repeat(65)] {
        assert_eq!(told(&plan(&[task(id, &[])])), ["/items/0/id word"], "{id:?}");
    }
    assert_eq!(told(&plan(&[task("Build", &[]), task("bUILD", &[])])), ["/items/1/id alike_id"]);
    let doubled = br#"{"version":1,"items":[{"id":"a","id":"b","dispatch":{"subagent":"s","input":{"x":[{"k":1,"k":2}]}}}]}"#;
    let faults = Plan::read(doubled, Format::Json).unwrap_err();
    let places: Vec<&str> = faults.iter().map(|fault| fault.at.as_str()).collect();
    assert_eq!(places, ["/items/0", "/items/0/dispatch/input/x/0"], "{faults}");
}

#[test]
fn orc_01_a_similar_name_is_offered() {
    let text = read(&plan(&[task("build", &[]), task("test", &["buidl"])])).unwrap_err().to_string();
    assert_eq!(text, "/items/1/after/0: there is no item `buidl`; is `build` meant?");
}

#[test]
fn orc_01_bounds_hold_at_and_beyond_them() {
    let many = |count: usize| plan(&(0..count).map(|n| task(&format!("t{n}"), &[])).collect::<Vec<_>>());
    assert!(read(&many(MOST_ITEMS)).is_ok());
    assert_eq!(told(&many(MOST_ITEMS + 1)), ["/items count"]);
    assert_eq!(told(&plan(&[])), ["/items count"]);
    // What patterns make counts, also what they may make.
    let map = |most: u64| {
        let part = json!({ "effect": "read", "dispatch": { "subagent": "s" } });
        plan(&[
            task("list", &[]),
            json!({ "id": "m", "pattern": "map-reduce", "after": ["list"], "over": { "item": "list", "output": "l.json", "most": most }, "map": part, "reduce": part }),
        ])
    };
    assert!(read(&map(997)).is_ok());
    assert_eq!(told(&map(998)), ["/items too_many_items"]);
    for (key, value, fits) in [
        ("deadlineSeconds", json!(86_400), true),
        ("deadlineSeconds", json!(86_401), false),
        ("deadlineSeconds", json!(0), false),
        ("deadlineSeconds", json!(-1), false),
        ("deadlineSeconds", json!(1.5), false),
        ("deadlineSeconds", json!(u64::MAX), false),
        ("attempts", json!(10), true),
        ("attempts", json!(11), false),
        ("locks", json!(["a", "b"]), true),
        ("locks", json!(["a", "a"]), false),
        ("locks", json!(["a\u{0}"]), false),
        ("effect", json!("none"), false),
        ("approval", json!({ "of": "x" }), false),
        ("approval", json!({ "fourEyes": true }), true),
        ("queue", json!("gpu"), true),
        ("idempotencyKey", json!("deploy-7"), true),
        ("idempotencyKey", json!(""), false),
    ] {
        let mut item = task("a", &[]);
        item[key] = value.clone();
        assert_eq!(read(&plan(&[item])).is_ok(), fits, "{key} {value}");
    }
    for (key, value, fits) in [
        ("retentionDays", json!(2_555), true),
        ("retentionDays", json!(2_556), false),
        ("workerImage", json!(format!("img@sha256:{}", "a".repeat(64))), true),
        ("workerImage", json!("img:latest"), false),
        ("env", json!("base"), true),
        ("env", json!(["base", { "name": "x", "contentHash": format!("sha256:{}", "0".repeat(64)) }]), true),
        ("env", json!({ "name": "x" }), false),
        ("resources", json!({ "cpu": 0.5, "memory": 512 }), true),
        ("resources", json!({ "cpu": 0 }), false),
        ("resources", json!({ "cpu": 1e300 }), false),
        ("input", json!("x".repeat(1024 * 1024 - 2)), true),
        ("input", json!("x".repeat(1024 * 1024 - 1)), false),
        ("callback", json!({ "url": "https://a.example/x" }), true),
        ("callback", json!({ "url": "file:///etc/passwd" }), false),
        ("secrets", json!({ "KEY": "vault-name" }), true),
        ("secrets", json!({ "1KEY": "vault-name" }), false),
        ("trace", json!({}), false),
    ] {
        let mut item = task("a", &[]);
        item["dispatch"][key] = value.clone();
        assert_eq!(read(&plan(&[item])).is_ok(), fits, "{key}");
    }
}

#[test]
fn orc_01_a_document_of_10_mb_is_not_read() {
    let long = vec![b'['; 10_000_000];
    for format in [Format::Json, Format::Toml] {
        let faults = Plan::read(&long, format).unwrap_err();
        assert_eq!(faults.iter().map(|fault| fault.what.code()).collect::<Vec<_>>(), ["too_long"]);
    }
}

#[test]
fn orc_01_faults_without_number_are_counted_not_told() {
    let edges: Vec<Value> = (0..MOST_ITEMS).map(|n| json!(format!("nobody{n}"))).collect();
    let items: Vec<Value> = (0..100)
        .map(|n| json!({ "id": format!("t{n}"), "after": edges, "dispatch": { "subagent": "s" } }))
        .collect();
    let faults = read(&plan(&items)).unwrap_err();
    assert_eq!((faults.iter().count(), faults.more()), (MOST_FAULTS, 100 * MOST_ITEMS - MOST_FAULTS));
}

#[test]
fn orc_10_what_is_not_classed_counts_as_writing() {
    let mut item = task("a", &[]);
    item.as_object_mut().unwrap().remove("effect");
    let read = read(&plan(&[item, task("b", &[])])).unwrap();
    let effects: Vec<Effect> = read.items().map(|item| item.task().unwrap().effect).collect();
    assert_eq!(effects, [Effect::Write, Effect::Read]);
    let task = read.items().next().unwrap().task().unwrap();
    assert_eq!((task.attempts, task.deadline_seconds, read.concurrency()), (2, 7_200, 8));
}

#[test]
fn a_plan_can_be_written_in_toml() {
    let text = "version = 1\nname = 'Release'\n[queues]\ngpu = 1\n[[items]]\nid = 'build'\neffect = 'read'\ndispatch.subagent = 'builder'\n[[items]]\nid = 'test'\nafter = ['build']\nqueue = 'gpu'\nneeds = [{ item = 'build', patch = true }]\n[items.dispatch]\nsubagent = 'tester'\n";
    let plan = Plan::read(text.as_bytes(), Format::Toml).unwrap();
    assert_eq!((plan.name(), plan.items().count(), plan.outline().layers), (Some("Release"), 2, 2));
    let faults =
        Plan::read(text.replace("'build'\neffect", "7\neffect").as_bytes(), Format::Toml).unwrap_err();
    assert!(faults.to_string().starts_with("/items/0/id: a number stands where a text belongs"), "{faults}");
    let faults = Plan::read(b"version = 1\nversion = 2", Format::Toml).unwrap_err();
    assert!(faults.to_string().contains("not TOML"), "{faults}");
}

/// The page about plans shows one that is one, and faults that are told.
#[test]
fn the_example_of_the_documents_is_a_plan() {
    let page = include_str!("../../../docs/plans.md");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let plan = Plan::read(example.as_bytes(), Format::Toml).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(plan.items().count(), 6);
    let mut document =
        plan_of(&[("build", &[]), ("b", &["biuld"]), ("c", &["d"]), ("d", &["c"]), ("e", &[])]);
    document["items"][4]["needs"] = json!([{ "item": "build", "patch": true }]);
    for line in read(&document).unwrap_err().to_string().lines() {
        assert!(page.contains(line), "{line}");
    }
}

fn plan_of(items: &[(&str, &[&str])]) -> Value {
    plan(&items.iter().map(|(id, after)| task(id, after)).collect::<Vec<_>>())
}

#[test]
fn the_outline_says_how_large_a_plan_is() {
    let part = json!({ "effect": "read", "dispatch": { "subagent": "s" } });
    let items = [
        task("a", &[]),
        json!({ "id": "p", "pattern": "pipeline", "after": ["a"], "stages": [{ "id": "write", "effect": "read", "locks": ["repo"], "dispatch": { "subagent": "s" } }], "gate": part, "fix": part }),
        json!({ "id": "q", "pattern": "quorum", "after": ["p"], "threshold": 1, "reviewers": [part, part] }),
        task("z", &["q"]),
    ];
    let outline = read(&plan(&items)).unwrap().outline();
    let ids: Vec<String> = read(&plan(&items)).unwrap().items().map(|item| item.id.to_string()).collect();
    assert_eq!(ids, ["a", "p", "p/write", "p/gate", "q", "q/reviewer-01", "q/reviewer-02", "z"]);
    assert_eq!((outline.items, outline.most_items, outline.layers, outline.widest), (8, 10, 7, 2));
    assert_eq!(outline.locks.into_iter().collect::<Vec<_>>(), ["repo"]);
}

/// A document that is nearly one, so that every reader is reached.
fn nearly() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,2}|done|ended|static|quorum|pipeline|map-reduce|read".prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "version",
        "items",
        "id",
        "after",
        "pattern",
        "dispatch",
        "subagent",
        "needs",
        "item",
        "patch",
        "output",
        "as",
        "on",
        "locks",
        "queue",
        "attempts",
        "effect",
        "approval",
        "stages",
        "gate",
        "fix",
        "over",
        "map",
        "reduce",
        "threshold",
        "reviewers",
        "input",
        "queues",
        "~/",
        "secrets",
    ]);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..8)
                .prop_map(|all| all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn every_fault_points_into_the_document(document in nearly(), items in prop::collection::vec(nearly(), 0..5)) {
        for document in [document, plan(&items)] {
            let Err(faults) = read(&document) else { continue };
            prop_assert!(!faults.is_empty());
            for fault in faults.iter() {
                // What is missing or unknown is told where it should be, or stands.
                prop_assert!(document.pointer(&fault.at).is_some(), "{} in {document}", fault.at);
            }
        }
    }

    #[test]
    fn no_bytes_make_the_reader_stumble(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[\\[\\]{}\":,=a-z0-9 \n.'-]{0,200}") {
        for format in [Format::Json, Format::Toml] {
            let _ = Plan::read(&bytes, format);
            let _ = Plan::read(text.as_bytes(), format);
        }
    }
}
