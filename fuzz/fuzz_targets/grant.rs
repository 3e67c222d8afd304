//! A Grant that parses keeps its laws, whatever it was written like.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::Grant;

fuzz_target!(|pair: (String, String)| {
    let (Ok(a), Ok(b)) = (serde_json::from_str::<Grant>(&pair.0), serde_json::from_str::<Grant>(&pair.1)) else { return };
    let both = a.meet(&b);
    assert_eq!(both, b.meet(&a));
    assert!(a.contains(&both) && b.contains(&both));
    let text = serde_json::to_string(&both).expect("a grant can be written");
    assert_eq!(serde_json::from_str::<Grant>(&text).expect("and read again"), both);
});
