//! Secrets that are never sent, and sign instead.

use egress::http1::Request;

use super::{Lent, Towards};
use crate::sigv4;

impl Lent {
    /// Signs a request again that the sandbox signed with a word; `content` is all of it, if it is there. Why it cannot be
    /// done, if it cannot.
    pub(crate) fn sign(
        &self,
        request: &mut Request,
        content: Option<&[u8]>,
        towards: Towards<'_>,
    ) -> Result<(), String> {
        let signs = |whose: &usize| self.loans.get(*whose).is_some_and(|loan| loan.signs);
        let whose = (0..self.loans.len()).filter(signs).find(|whose| self.may_go(*whose, towards));
        let Some(loan) = whose.and_then(|whose| self.loans.get(whose)) else { return Ok(()) };
        if !request.fields.only("authorization").is_some_and(sigv4::is_signed) {
            return Ok(());
        }
        let mut headers: Vec<(String, &[u8])> =
            request.fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        let authority = request.authority.to_string();
        headers.retain(|(name, _)| name != "host");
        headers.push(("host".into(), authority.as_bytes()));
        let (path, query) = request.target.resource().map_or(("/", None), |it| (it.path(), it.query()));
        let signed = sigv4::Signed { method: request.method.as_str(), path, query, headers, content };
        let value = sigv4::sign_again(&signed, loan.value.reveal());
        let value = value.map_err(|why| format!("the request cannot be signed again: {why}"))?;
        let odd = |_| "the signature is no value of a header".to_owned();
        request.fields.set("Authorization", value.as_bytes()).map_err(odd)
    }
}
