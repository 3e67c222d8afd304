fn main() {
    let secret = vault::Secret::new([0_u8; 32]);
    let _copy: vault::Secret<[u8; 32]> = secret.clone();
}
