fn wants<T: Clone>(_: &T) {}

fn main() {
    wants(&vault::KeyRing::new(vault::MasterKey::random().unwrap()));
}
