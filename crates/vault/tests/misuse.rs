//! SEC-07: what must not compile.

#[test]
fn sec_07_a_secret_cannot_be_printed_copied_compared_or_serialized() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
