//! No document makes the reader of plans stumble; what it takes is the same again, and its run can be kept and restored.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plans::{Actor, Format, Hash, Pins, Plan, Run, RunId, Shared, Submission, Writes};

fuzz_target!(|bytes: &[u8]| {
    for format in [Format::Json, Format::Toml] {
        let read = Plan::read(bytes, format);
        assert_eq!(read, Plan::read(bytes, format));
        let Ok(plan) = read else { continue };
        let outline = plan.outline();
        assert!(outline.items <= outline.most_items && outline.most_items <= plans::MOST_ITEMS);
        let resolve = |_, name: &plans::Ref| {
            Ok(name.content_hash.unwrap_or_else(|| Hash::of("fuzz", &[name.name.as_bytes()])))
        };
        let pinned = plan.pinned(Pins::default(), resolve).expect("every name is resolved");
        let submission = Submission {
            id: RunId::of([1; 16]),
            by: Actor::person("a"),
            at: 0,
            writes: Writes::All,
            four_eyes: false,
        };
        let (run, _) = Run::begin(pinned, submission, &mut Shared::new());
        let head = serde_json::from_str(&serde_json::to_string(run.head()).expect("written")).expect("read");
        let rows = run
            .rows()
            .iter()
            .map(|row| serde_json::from_str(&serde_json::to_string(row).expect("written")).expect("read"));
        let again = Run::restore(head, rows.collect(), &mut Shared::new()).expect("restored");
        assert_eq!((run.head(), run.rows()), (again.head(), again.rows()));
    }
});
