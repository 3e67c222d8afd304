//! Where a secret may go: hosts and ports, with all their paths or with some.

use egress::control::Loan;
use rules::{Host, Rules};

use super::Lent;

/// Where a request goes.
#[derive(Clone, Copy)]
pub(crate) struct Towards<'a> {
    pub(crate) host: &'a Host,
    pub(crate) port: u16,
    /// What it asks for, as it came and without its query.
    pub(crate) path: &'a str,
    /// Whether nobody on the way can read it.
    pub(crate) is_private: bool,
}

/// The paths that each loan is bound to. What cannot be read binds to nothing.
pub(super) fn paths(loans: &[Loan]) -> Vec<Rules> {
    loans.iter().map(|loan| Rules::compile(loan.paths.clone()).unwrap_or_else(|_| Rules::none())).collect()
}

impl Lent {
    /// Whether anything that is lent may go to this host, and may so come back from there, whatever is asked for.
    pub(crate) fn concerns(&self, towards: Towards<'_>) -> bool {
        let is_bound = |loan: &Loan, paths: &Rules| {
            towards.is_one_of(loan) || paths.connect(towards.host, towards.port).is_allowed()
        };
        towards.is_private && self.loans.iter().zip(&self.paths).any(|(loan, paths)| is_bound(loan, paths))
    }

    /// Whether a secret may be in what this host answers: one could have gone there, by any of its ports. One that only signs is
    /// never sent.
    pub(super) fn may_return(&self, towards: Towards<'_>) -> bool {
        let host = towards.host.to_string();
        let is_bound = |loan: &Loan, paths: &Rules| {
            let mut ports = loan.paths.iter().flat_map(|rule| &rule.ports);
            loan.hosts.iter().any(|(bound, _)| *bound == host)
                || ports.any(|port| paths.connect(towards.host, *port).is_allowed())
        };
        let mut sent = self.loans.iter().zip(&self.paths).filter(|(loan, _)| !loan.signs && !loan.is_decoy);
        sent.any(|(loan, paths)| is_bound(loan, paths))
    }

    /// Whether something that could go to this host before is taken back now. Another value for the same word is no reason
    /// to end what is open.
    pub(crate) fn took_back(&self, before: &Self, towards: Towards<'_>) -> bool {
        let stood = |loan: &Loan| before.loans.iter().any(|old| old.word == loan.word && !old.is_over);
        let is_bound = |loan: &Loan, paths: &Rules| {
            towards.is_one_of(loan) || paths.connect(towards.host, towards.port).is_allowed()
        };
        let mut all = self.loans.iter().zip(&self.paths);
        towards.is_private && all.any(|(loan, paths)| loan.is_over && is_bound(loan, paths) && stood(loan))
    }

    /// Whether this one may go there now.
    pub(super) fn may_go(&self, whose: usize, towards: Towards<'_>) -> bool {
        let (Some(loan), Some(paths)) = (self.loans.get(whose), self.paths.get(whose)) else { return false };
        towards.is_private && !loan.is_over && (towards.is_one_of(loan) || towards.is_within(paths))
    }
}

impl Towards<'_> {
    fn is_one_of(self, loan: &Loan) -> bool {
        let host = self.host.to_string();
        loan.hosts.iter().any(|(bound, port)| *bound == host && *port == self.port)
    }

    fn is_within(self, paths: &Rules) -> bool {
        // Whatever the method is: that is for other rules to say.
        let asked = rules::path::canonical(self.path).map(|path| rules::Request {
            method: "GET",
            path,
            query: None,
            websocket: false,
            git: None,
        });
        asked.is_ok_and(|asked| paths.request(self.host, self.port, &asked).is_allowed())
    }
}

#[cfg(test)]
mod tests {
    use egress::control::Value;
    use egress::http1::Request;
    use rules::Rule;

    use super::*;

    const WORD: &str = "sk-ant-api03-WORDwordWORDword0123456789";

    fn lent(is_over: bool) -> Lent {
        let paths = Some(vec!["/v1/**".to_owned(), "/*/send".to_owned()]);
        let rule = Rule { paths, ports: vec![8443], ..Rule::new("api.test") };
        Lent::new(vec![Loan {
            name: "KEY".into(),
            word: WORD.into(),
            value: Value::new("a secret of some length".into()),
            paths: vec![rule],
            hosts: vec![("all.test".into(), 443)],
            is_over,
            ..Loan::default()
        }])
    }

    fn goes(lent: &Lent, host: &str, port: u16, path: &str) -> bool {
        let host: Host = host.parse().unwrap();
        let text = format!("GET /x HTTP/1.1\r\nHost: api.test\r\nx-key: {WORD}\r\n\r\n");
        let mut request = Request::parse(text.as_bytes()).unwrap();
        lent.fill(&mut request, Towards { host: &host, port, path, is_private: true }).is_ok()
    }

    #[test]
    fn egr_13_a_secret_goes_to_the_paths_that_it_is_bound_to_and_to_no_other() {
        let lent = lent(false);
        for target in ["/v1/models", "/v1/a/b", "/v1/a%20b", "/any/send"] {
            assert!(goes(&lent, "api.test", 8443, target), "{target}");
            assert!(!goes(&lent, "api.test", 443, target), "{target} at another port");
            assert!(!goes(&lent, "other.test", 8443, target), "{target} at another host");
        }
        for target in
            ["/", "/v1", "/v2/models", "/V1/models", "/x/v1/models", "/send", "/v1/../v2", "//v1/x", ""]
        {
            assert!(!goes(&lent, "api.test", 8443, target), "{target}");
        }
        assert!(goes(&lent, "all.test", 443, "/anything"));
        // What comes back from there is looked at, whatever was asked for.
        let host: Host = "api.test".parse().unwrap();
        assert!(lent.concerns(Towards { host: &host, port: 8443, path: "/v2", is_private: true }));
        assert!(!lent.concerns(Towards { host: &host, port: 443, path: "/v1/x", is_private: true }));
    }

    #[test]
    fn egr_13_only_hosts_that_could_have_a_secret_are_asked_for_whole_answers() {
        let keeps = |lent: &Lent, host: &str, port: u16, is_private: bool| {
            let text = "GET /x HTTP/1.1\r\nHost: api.test\r\nRange: bytes=5-9\r\nIf-Range: \"x\"\r\n\
                        Request-Range: bytes=5-9\r\nx-ms-range: bytes=5-9\r\n\r\n";
            let mut request = Request::parse(text.as_bytes()).unwrap();
            let host: Host = host.parse().unwrap();
            lent.fill(&mut request, Towards { host: &host, port, path: "/x", is_private }).unwrap();
            let kept = request.fields.iter().filter(|(name, _)| name.to_ascii_lowercase().contains("range"));
            match kept.count() {
                0 => false,
                4 => true,
                some => panic!("{some}"),
            }
        };
        // Whatever it is asked for, and wherever it listens; also what was taken back may be kept there.
        for lent in [lent(false), lent(true)] {
            for (host, port) in [("api.test", 8443), ("api.test", 443), ("all.test", 443), ("all.test", 8443)]
            {
                assert!(!keeps(&lent, host, port, true), "{host}:{port}");
                assert!(!keeps(&lent, host, 80, false), "{host}");
            }
            assert!(keeps(&lent, "other.test", 443, true) && keeps(&lent, "x.api.test", 443, true));
        }
        let signs = |signs, is_decoy| {
            let hosts = vec![("s3.test".into(), 443)];
            let value = Value::new("a secret of some length".into());
            Lent::new(vec![Loan { word: WORD.into(), value, hosts, signs, is_decoy, ..Loan::default() }])
        };
        // A key that only signs is never sent, and a decoy is no secret.
        assert!(keeps(&signs(true, false), "s3.test", 443, true));
        assert!(keeps(&signs(false, true), "s3.test", 443, true));
        assert!(!keeps(&signs(false, false), "s3.test", 443, true));
    }

    #[test]
    fn sec_06_what_was_taken_back_goes_nowhere_and_is_still_masked() {
        let lent = lent(true);
        for (host, port) in [("api.test", 8443), ("all.test", 443)] {
            assert!(!goes(&lent, host, port, "/v1/models"));
            let host: Host = host.parse().unwrap();
            assert!(lent.concerns(Towards { host: &host, port, path: "/", is_private: true }));
        }
        let (masked, name) = lent.masked(b"it was: a secret of some length.").unwrap();
        assert_eq!((masked.as_slice(), name.as_str()), (&b"it was: ***********************."[..], "KEY"));
    }
}
