// The value can be looked at, not carried off.
fn main() {
    let secret = vault::Secret::new(String::from("hunter2"));
    let _text: String = *secret.expose();
}
