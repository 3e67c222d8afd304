use access::{ListUsers, Permit};

fn keep(permit: &Permit<ListUsers>) -> String {
    serde_json::to_string(permit).unwrap()
}

fn main() {}
