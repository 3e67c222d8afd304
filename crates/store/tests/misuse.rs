//! ACC-01: what must not compile. An effect takes a permit by value, and only the gate can make one.

#[test]
fn acc_01_no_effect_without_a_permit_and_no_permit_but_from_the_gate() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}

/// An effect that is added without its line above is found here.
#[test]
fn acc_01_every_effect_is_among_those_that_must_not_compile() {
    let listed = include_str!("ui/effects_without_permit.rs");
    let mut effects = 0;
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|end| end != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for part in text.split("pub async fn ").skip(1) {
            let head = part.split('{').next().unwrap();
            let name = head.split(['(', '<']).next().unwrap();
            if head.contains("Permit<") {
                effects += 1;
                assert!(listed.contains(&format!("store.{name}(()")), "{name} has no line");
            }
        }
    }
    assert!(effects > 30, "{effects} were found");
}
