use access::{ListUsers, Permit, Principal};

fn forge(who: Principal) -> Permit<ListUsers> {
    Permit::new(ListUsers {}, who, None)
}

fn main() {}
