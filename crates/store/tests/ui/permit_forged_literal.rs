use access::{ListUsers, Permit, Principal};

fn forge(who: Principal) -> Permit<ListUsers> {
    Permit { act: ListUsers {}, who, record: None }
}

fn main() {}
