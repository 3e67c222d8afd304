fn main() {
    let (a, b) = (vault::Secret::new([0_u8; 32]), vault::Secret::new([0_u8; 32]));
    let _same = a == b;
}
