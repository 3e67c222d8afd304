//! ACC-01: what must not compile. An effect takes a permit by value, and only the gate can make one.

#[test]
fn acc_01_no_effect_without_a_permit_and_no_permit_but_from_the_gate() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
