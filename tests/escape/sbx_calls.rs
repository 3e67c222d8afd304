//! SBX-03 on a real kernel: every number that is not on the list.

use std::collections::BTreeSet;

use crate::kit::both;

/// The kernel answers these two itself, before any filter.
const PAST_EVERY_FILTER: [(&str, &str); 2] = [("335", "killed by 4"), ("336", "ENXIO")];

both! {
    fn sbx_03_a_what_is_not_on_the_list_does_not_happen(stage) {
        let listed: BTreeSet<u32> = sandbox::allowed().map(|call| call.number).collect();
        let others: Vec<String> = (0..=511u32).filter(|number| !listed.contains(number)).map(|n| n.to_string()).collect();
        assert!(others.len() > 100);
        let words: Vec<&str> = ["sweep"].into_iter().chain(others.iter().map(String::as_str)).collect();

        let report = stage.attack(&words);

        assert_eq!(report.0.len(), others.len());
        for (number, verdict) in &report.0 {
            let fine = ["EPERM", "ENOSYS", "killed by 31"].contains(&verdict.as_str())
                || PAST_EVERY_FILTER.contains(&(number.as_str(), verdict.as_str()));
            assert!(fine, "{number}: {verdict}");
        }
        // The control: without the filter, many answer for themselves.
        let without = stage.without(&["seccomp"], &[], &words);
        let others = without.0.values().filter(|verdict| !["EPERM", "ENOSYS"].contains(&verdict.as_str())).count();
        assert!(others > 30, "{without:?}");
    }
}
