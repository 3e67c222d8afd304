fn wants(_: &impl serde::Serialize) {}

fn main() {
    wants(&vault::Secret::new([0_u8; 32]));
}
