//! Whatever is added, in whatever order.

use proptest::prelude::*;

use super::*;

fn narrowing() -> impl Strategy<Value = String> {
    prop_oneof![
        prop_oneof!["ro", "rw"]
            .prop_flat_map(|access| "(/(work|usr|src|\\.git)){1,3}"
                .prop_map(move |path| format!("path {access}:{path}"))),
        "(\\*\\.|\\*\\*\\.|a\\.)?(b\\.)?example\\.org(:443)?".prop_map(|host| format!("host {host}")),
        "(git\\.(read|write|\\*)|build|\\*)".prop_map(|tool| format!("tool {tool}")),
        (0..4_u8).prop_map(|depth| format!("depth {depth}")),
        (0..2000_u64).prop_map(|tokens| format!("budget {{\"tokens\":{tokens}}}")),
        (-1000..DEFAULT_LIFE + 1000).prop_map(|life| format!("before {}", NOW + life)),
        Just(r#"grant {"tools":{"allow":["build"]},"depth":1}"#.to_owned()),
        Just(format!("id {}", PassId::random())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn acc_10_no_chain_of_caveats_ever_widens(caveats in proptest::collection::vec(narrowing(), 0..6)) {
        let token = pass();
        let whole = mint().verify(&token, NOW).unwrap();
        let texts: Vec<&str> = caveats.iter().map(String::as_str).collect();
        if let Ok(narrowed) = check_raw(&forced(&token, &texts)) {
            prop_assert!(whole.grant().contains(narrowed.grant()));
            prop_assert!(narrowed.expires() <= whole.expires());
            prop_assert_eq!((narrowed.user(), narrowed.ids()[0]), (whole.user(), whole.id()));
        }
    }

    #[test]
    fn acc_10_mint_and_use_judge_alike(caveats in proptest::collection::vec(narrowing(), 1..6)) {
        let token = pass();
        let attenuated = caveats.iter().try_fold(PassToken::parse(&text(&token)).unwrap(), |token, caveat| token.attenuate(&caveat.parse().unwrap()));
        let texts: Vec<&str> = caveats.iter().map(String::as_str).collect();
        let used = check_raw(&forced(&token, &texts));
        match attenuated {
            Ok(attenuated) => prop_assert_eq!(mint().verify(&attenuated, NOW).map(|pass| pass.grant().clone()), used.map(|pass| pass.grant().clone())),
            Err(_) => prop_assert!(used.is_err()),
        }
    }

    #[test]
    fn a_caveat_reads_back_as_it_was_written(caveat in narrowing()) {
        let caveat: Caveat = caveat.parse().unwrap();
        prop_assert_eq!(caveat.to_string().parse::<Caveat>().unwrap(), caveat);
    }

    #[test]
    fn hostile_bytes_are_never_a_pass(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..100_usize) {
        prop_assert!(check_raw(&bytes).is_err());
        let mut mixed = raw(&pass());
        mixed.truncate(cut);
        mixed.extend(bytes);
        prop_assert!(check_raw(&mixed).is_err());
    }

    #[test]
    fn hostile_text_is_never_a_caveat_that_panics(text in "\\PC{0,60}") {
        let _ = text.parse::<Caveat>();
    }
}
