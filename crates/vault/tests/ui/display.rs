fn main() {
    let secret = vault::Secret::new([0_u8; 32]);
    println!("{secret}");
}
