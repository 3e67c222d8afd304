//! SEC-06: what is lent is for one consumer and for its time.

use vault::{LEASE_GRACE, LONGEST_TIMEOUT, LeaseError, Leases, Secret, Term};

const START: i64 = 1_800_000_000_000;

fn term(timeout: i64) -> Term {
    Term { now: START, timeout, at_most: None }
}

fn value(text: &str) -> Secret<Vec<u8>> {
    Secret::new(text.as_bytes().to_vec())
}

#[test]
fn sec_06_a_lease_lasts_for_the_timeout_and_300_seconds() {
    let leases = Leases::default();
    let (lease, until) = leases.grant("run_a", value("v"), term(60_000), ()).unwrap();
    assert_eq!(until, START + 60_000 + 300_000);
    assert_eq!(LEASE_GRACE, 300_000);
    let look = |now| leases.with(lease, "run_a", now, <[u8]>::to_vec);
    assert_eq!(look(START).unwrap(), b"v");
    assert_eq!(look(until - 1).unwrap(), b"v");
    assert_eq!(look(until).unwrap_err(), LeaseError::None);
    assert_eq!(look(START).unwrap_err(), LeaseError::None, "a clock that is set back revives nothing");
    assert_eq!(leases.count(), 1, "it is there to be wiped");
    assert_eq!(leases.expire(START).len(), 1);
    assert_eq!(leases.count(), 0);
}

#[test]
fn sec_06_another_consumers_lease_is_readable_in_none_of_a_hundred_tries() {
    let leases = Leases::default();
    let held: Vec<_> = (0..100)
        .map(|n| leases.grant(&format!("run_{n}"), value(&format!("value {n}")), term(60_000), ()).unwrap().0)
        .collect();
    for (n, lease) in held.iter().enumerate() {
        for other in [format!("run_{}", (n + 1) % 100), format!("run_{n} "), String::new(), "run_".into()] {
            let tried = leases.with(*lease, &other, START, <[u8]>::to_vec);
            assert_eq!(tried.unwrap_err(), LeaseError::None, "{other}");
            assert!(leases.end(*lease, &other).is_none(), "nor ended by {other}");
        }
        let own = leases.with(*lease, &format!("run_{n}"), START, <[u8]>::to_vec).unwrap();
        assert_eq!(own, format!("value {n}").into_bytes());
    }
}

#[test]
fn sec_06_what_ends_is_gone() {
    let leases = Leases::default();
    let (one, _) = leases.grant("run_a", value("one"), term(60_000), ()).unwrap();
    let (two, _) = leases.grant("run_a", value("two"), term(60_000), ()).unwrap();
    let (other, _) = leases.grant("run_b", value("other"), term(60_000), ()).unwrap();
    assert!(leases.end(one, "run_a").unwrap().matches(b"one"));
    assert!(leases.end(one, "run_a").is_none(), "once");
    assert_eq!(leases.with(one, "run_a", START, |_| ()).unwrap_err(), LeaseError::None);
    assert_eq!(leases.end_all_of("run_a").len(), 1);
    assert_eq!(leases.with(two, "run_a", START, |_| ()).unwrap_err(), LeaseError::None);
    leases.with(other, "run_b", START, |_| ()).unwrap();
    assert_eq!(format!("{leases:?}"), "Leases(1)");
}

#[test]
fn sec_06_there_is_an_end_to_how_many_are_lent() {
    let leases = Leases::default();
    for _ in 0..10_000 {
        leases.grant("run_a", value("v"), term(0), ()).unwrap();
    }
    assert_eq!(leases.grant("run_a", value("v"), term(0), ()).unwrap_err(), LeaseError::TooMany);
    assert_eq!(leases.expire(START + LEASE_GRACE).len(), 10_000);
    leases.grant("run_a", value("v"), term(0), ()).unwrap();
}

#[test]
fn sec_06_no_lease_is_longer_than_a_day_or_than_its_value() {
    let leases = Leases::default();
    for (timeout, at_most, life) in [
        (60_000, None, 60_000 + LEASE_GRACE),
        (LONGEST_TIMEOUT, None, LONGEST_TIMEOUT + LEASE_GRACE),
        (LONGEST_TIMEOUT + 1, None, LONGEST_TIMEOUT + LEASE_GRACE),
        (i64::MAX, None, LONGEST_TIMEOUT + LEASE_GRACE),
        (-5, None, LEASE_GRACE),
        (60_000, Some(1_000), 1_000),
        (60_000, Some(-1), 0),
        (60_000, Some(i64::MAX), 60_000 + LEASE_GRACE),
    ] {
        let term = Term { now: START, timeout, at_most };
        let (_, until) = leases.grant("run_a", value("v"), term, ()).unwrap();
        assert_eq!(until - START, life, "{timeout} {at_most:?}");
    }
}

#[test]
fn sec_06_what_is_marked_ends_together() {
    let leases = Leases::default();
    let lent: Vec<_> =
        (0..4).map(|n| leases.grant("run_a", value("v"), term(60_000), n % 2).unwrap().0).collect();
    assert_eq!(leases.marks().len(), 4);
    assert_eq!(leases.end_where(|_, mark| *mark == 1).len(), 2);
    for (n, lease) in lent.into_iter().enumerate() {
        assert_eq!(leases.with(lease, "run_a", START, |_| ()).is_ok(), n % 2 == 0, "{n}");
    }
}
