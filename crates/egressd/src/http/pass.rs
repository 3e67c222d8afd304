//! What is done with content on its way: looked through, masked, unpacked, and counted against what an answer may have.

use std::borrow::Cow;

use egress::http1::Fields;

use super::Trouble;
use super::carry::Guard;
use super::packed::{self, Inside, Packing, Unpack};
use crate::lent::{Hide, Lent, Mask, Watch};

/// What is done with content that passes by.
pub(super) struct Pass<'a> {
    look: Look<'a>,
    /// What is unpacked goes on so.
    unpack: Option<Unpack>,
    /// How much may go on, and what may still.
    most: Option<(u64, u64)>,
}

/// What is looked for in it.
enum Look<'a> {
    Nothing,
    Watch(&'a Lent, Watch<'a>, Inside<'a>),
    /// Looks into what is packed, which goes on as it is.
    Packed(&'a Lent, Watch<'a>, Watch<'a>, Box<Unpack>),
    Hide(&'a Lent, Hide<'a>, Inside<'a>, Option<Calls>),
    Mask(&'a Lent, Mask<'a>, Option<Calls>),
}

/// Fields that say what content has to be, byte for byte.
const DIGESTS: [&str; 5] = ["content-digest", "content-md5", "digest", "repr-digest", "x-amz-content-sha256"];

impl<'a> Pass<'a> {
    /// For what goes out, with these fields before it.
    pub(super) fn out(Guard { lent, towards, .. }: Guard<'a>, fields: &Fields) -> Self {
        let is_exact = || DIGESTS.iter().any(|name| fields.all(name).next().is_some());
        if lent.is_empty() {
            return Self { look: Look::Nothing, unpack: None, most: None };
        }
        let look = match Packing::of(fields).opens() {
            Some(unpack) => Look::Packed(lent, lent.watch(), lent.watch(), Box::new(unpack)),
            // What has to stay as it is cannot be masked.
            None if lent.hides(towards) && !is_exact() => {
                Look::Hide(lent, lent.hide(towards), Inside::new(lent.watch()), calls(fields))
            }
            None => Look::Watch(lent, lent.watch(), Inside::new(lent.watch())),
        };
        Self { look, unpack: None, most: None }
    }

    /// For what comes back, with these fields before it.
    pub(super) fn back(guard: Guard<'a>, fields: &Fields, unpack: Option<Unpack>) -> Self {
        let lent = guard.lent;
        let look = match lent.is_empty() {
            true => Look::Nothing,
            false => Look::Mask(lent, lent.mask(), calls(fields)),
        };
        Self { look, unpack, most: guard.most.map(|most| (most, most)) }
    }

    /// The secret that was masked.
    pub(super) fn found(self) -> Option<String> {
        match self.look {
            Look::Mask(_, mask, _) => mask.found,
            Look::Nothing | Look::Watch(..) | Look::Packed(..) | Look::Hide(..) => None,
        }
    }

    /// Fields after content are looked at as content is.
    pub(super) fn fields(&mut self, fields: Fields) -> Result<Fields, Trouble> {
        self.look.fields(fields)
    }

    /// How much is passed at once.
    pub(super) fn at_once(&self) -> usize {
        if self.unpack.is_some() { packed::AT_ONCE } else { usize::MAX }
    }

    /// The bytes that go on.
    pub(super) fn pass<'d>(&mut self, data: &'d [u8], is_end: bool) -> Result<Cow<'d, [u8]>, Trouble> {
        let out = match &mut self.unpack {
            None => self.look.pass(data, is_end)?,
            Some(unpack) => {
                let plain = unpack.feed(data, is_end)?;
                self.look.pass(&plain, is_end)?.into_owned().into()
            }
        };
        if let Some((most, left)) = &mut self.most {
            *left = left.checked_sub(super::length(&out)).ok_or_else(|| too_long(*most))?;
        }
        Ok(out)
    }
}

/// There is more of an answer than may be.
pub(super) fn too_long(most: u64) -> Trouble {
    Trouble::Refused(format!("the answer is longer than the {most} bytes that a rule or limit lets it have"))
}

/// Knows where messages end, if these fields say that there are some.
fn calls(fields: &Fields) -> Option<Calls> {
    let is_call = fields.only("content-type").is_some_and(|kind| kind.starts_with(b"application/grpc"));
    is_call.then(Calls::default)
}

impl Look<'_> {
    fn pass<'d>(&mut self, data: &'d [u8], is_end: bool) -> Result<Cow<'d, [u8]>, Trouble> {
        match self {
            Self::Nothing => Ok(data.into()),
            Self::Watch(_, watch, inside) => {
                watch.look(data).map_err(Trouble::Astray)?;
                inside.look(data).map(|()| data.into())
            }
            Self::Packed(_, outside, inside, unpack) => {
                outside.look(data).map_err(Trouble::Astray)?;
                for some in data.chunks(packed::AT_ONCE) {
                    inside.look(&unpack.feed(some, false)?).map_err(Trouble::Astray)?;
                }
                if is_end {
                    inside.look(&unpack.feed(b"", true)?).map_err(Trouble::Astray)?;
                }
                Ok(data.into())
            }
            Self::Hide(_, hide, inside, calls) => {
                inside.look(data)?;
                let is_whole = calls.as_mut().is_some_and(|calls| calls.is_whole_after(data));
                hide.pass(data, is_end || is_whole).map_err(Trouble::Astray)
            }
            Self::Mask(_, mask, calls) => {
                let is_whole = calls.as_mut().is_some_and(|calls| calls.is_whole_after(data));
                Ok(mask.pass(data, is_end || is_whole))
            }
        }
    }

    /// The same for fields after content.
    fn fields(&mut self, mut fields: Fields) -> Result<Fields, Trouble> {
        match self {
            Self::Nothing => {}
            Self::Watch(lent, ..) | Self::Packed(lent, ..) | Self::Hide(lent, ..) => {
                for (name, value) in fields.iter() {
                    lent.watch().look(name.as_bytes()).map_err(Trouble::Astray)?;
                    lent.watch().look(value).map_err(Trouble::Astray)?;
                }
            }
            Self::Mask(lent, mask, _) => {
                let odd = || Trouble::Odd("a secret comes back where it cannot be masked".into());
                if fields.iter().any(|(name, _)| lent.masked(name.as_bytes()).is_some()) {
                    return Err(odd());
                }
                let change = |_: &str, value: &[u8]| {
                    let (masked, name) = lent.masked(value)?;
                    mask.found = Some(name);
                    Some(masked)
                };
                fields.rewrite(change).map_err(|_| odd())?;
            }
        }
        Ok(fields)
    }
}

/// Knows where the messages of a call end. What could be the beginning of a secret is not held back there: the other side may
/// wait for the whole message before it says more, and what follows has a mark before it that stands in no secret.
#[derive(Default)]
pub(super) struct Calls {
    /// The mark and the length before a message, as far as they came.
    head: Vec<u8>,
    /// How much of the message is to come.
    left: usize,
}

impl Calls {
    /// Whether a message ends with these bytes.
    fn is_whole_after(&mut self, mut data: &[u8]) -> bool {
        while let Some((first, rest)) = data.split_first() {
            if self.left > 0 {
                let count = self.left.min(data.len());
                self.left -= count;
                data = data.get(count..).unwrap_or_default();
                continue;
            }
            self.head.push(*first);
            data = rest;
            if let [_, a, b, c, d] = *self.head {
                self.left = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
                self.head.clear();
            }
        }
        self.left == 0 && self.head.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_call_end_where_they_say_wherever_they_are_cut() {
        let all = b"\0\0\0\0\x03abc\0\0\0\0\0\x01\0\0\0\x01z";
        let ends = [8, 13, 19];
        for first in 0..=all.len() {
            for second in first..=all.len() {
                let mut calls = Calls::default();
                let is_end = |at: usize| at == 0 || ends.contains(&at);
                assert_eq!(calls.is_whole_after(&all[..first]), is_end(first));
                assert_eq!(calls.is_whole_after(&all[first..second]), is_end(second));
                assert!(calls.is_whole_after(&all[second..]));
            }
        }
    }
}
