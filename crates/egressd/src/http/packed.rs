//! Content that is packed (`Content-Encoding`), unpacked piece by piece so that it can be looked at.
//!
//! Invariants: little is kept at a time, whatever it unpacks to; what unpacks to far more than it is long is given up with the
//! reason; what cannot be unpacked in the one way that everybody would is not passed on.

use std::io::{self, Read, Write};

use egress::http1::Fields;
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::{Trouble, length};
use crate::lent::Watch;

/// How much is unpacked at once: a thousand times as much may come of it.
pub(super) const AT_ONCE: usize = 1024;
/// How many times its length content may unpack to, beyond what it may unpack to anyway.
const MOST_TIMES: u64 = 100;
const ANYWAY: u64 = 16 * 1024 * 1024;
/// The window that whoever reads zstd in HTTP has to have.
const WINDOW: u64 = 8 * 1024 * 1024;
/// How content in `gzip` begins.
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];

/// How content is packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    No,
    Gzip,
    Deflate,
    /// Shows nothing of itself until much of it is there, so it is looked at as a whole or not at all.
    Zstd,
    /// In a way that is not looked into.
    Other(String),
}

impl Packing {
    /// As the fields before it say.
    pub(super) fn of(fields: &Fields) -> Self {
        let lists = ["content-encoding", "grpc-encoding"].map(|name| fields.all(name));
        let words = lists.into_iter().flatten().flat_map(|list| list.split(|byte| *byte == b','));
        let words = words.map(|word| String::from_utf8_lossy(word.trim_ascii()).to_ascii_lowercase());
        // The second is no packing: pieces with their lengths between them.
        let is_plain = |word: &str| matches!(word, "" | "identity" | "aws-chunked");
        let words: Vec<String> = words.filter(|word| !is_plain(word)).collect();
        let is_call = fields.all("grpc-encoding").any(|coding| !coding.eq_ignore_ascii_case(b"identity"));
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => Self::No,
            // Each message is packed by itself there.
            _ if is_call => Self::Other(words.join(", ")),
            ["gzip" | "x-gzip"] => Self::Gzip,
            ["deflate"] => Self::Deflate,
            ["zstd"] => Self::Zstd,
            _ => Self::Other(words.join(", ")),
        }
    }

    /// Why content that is packed like this does not go out where something is lent. What is called `deflate` is read in two
    /// ways by servers, so it could be one thing here and another there.
    pub(super) fn unseen(&self) -> Option<String> {
        let name = match self {
            Self::No | Self::Gzip | Self::Zstd => return None,
            Self::Deflate => "deflate",
            Self::Other(name) => name,
        };
        Some(format!(
            "the content is packed (`{name}`) so that what stands for a secret could go along unseen; send it plain, or as `gzip`"
        ))
    }

    /// What unpacks it; none if it is not packed, or in a way that is not known.
    pub(super) fn opens(&self) -> Option<Unpack> {
        let how = match self {
            Self::No | Self::Zstd | Self::Other(_) => return None,
            Self::Gzip => How::Gzip(MultiGzDecoder::new(Vec::new())),
            Self::Deflate => How::Undecided(Vec::new()),
        };
        Some(Unpack { how, came: 0, made: 0 })
    }
}

enum How {
    Gzip(MultiGzDecoder<Vec<u8>>),
    /// The first bytes say which of the two it is that go by this name.
    Undecided(Vec<u8>),
    Deflate(Deflate),
}

/// The other way, which has no reader by itself that says whether everything came.
struct Deflate {
    decoder: Decompress,
    is_over: bool,
}

impl Deflate {
    fn write(&mut self, mut data: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            if self.is_over {
                return if data.is_empty() { Ok(all) } else { Err(io::ErrorKind::InvalidData.into()) };
            }
            let (before, mut made) = (self.decoder.total_in(), Vec::with_capacity(32 * 1024));
            let status = self.decoder.decompress_vec(data, &mut made, FlushDecompress::None)?;
            let used = usize::try_from(self.decoder.total_in() - before).unwrap_or(usize::MAX);
            data = data.get(used..).unwrap_or_default();
            self.is_over = status == Status::StreamEnd;
            if used == 0 && made.is_empty() && !self.is_over {
                return Ok(all);
            }
            all.append(&mut made);
        }
    }
}

/// Unpacks content that passes by.
pub(super) struct Unpack {
    how: How,
    came: u64,
    made: u64,
}

impl Unpack {
    /// What this much more of it unpacks to; with `is_end` the rest, and whether that is all that there should be.
    pub(super) fn feed(&mut self, data: &[u8], is_end: bool) -> Result<Vec<u8>, Trouble> {
        let odd = |_| Trouble::Refused("the content cannot be unpacked, so it cannot be looked at".into());
        let mut all = Vec::new();
        for some in data.chunks(AT_ONCE) {
            self.came += length(some);
            let made = self.write(some).map_err(odd)?;
            self.take(made, &mut all)?;
        }
        if is_end && self.came > 0 {
            let made = self.finish().map_err(odd)?;
            self.take(made, &mut all)?;
        }
        Ok(all)
    }

    /// What was unpacked before something could not be.
    fn left(&mut self) -> Vec<u8> {
        let How::Gzip(decoder) = &mut self.how else { return Vec::new() };
        // It hands out what it has first, and fails then.
        let _ = decoder.try_finish();
        std::mem::take(decoder.get_mut())
    }

    /// Whether it has become more than is looked at.
    fn is_too_much(&self) -> bool {
        self.made > ANYWAY + MOST_TIMES * self.came
    }

    fn take(&mut self, mut made: Vec<u8>, all: &mut Vec<u8>) -> Result<(), Trouble> {
        self.made += length(&made);
        if self.is_too_much() {
            return Err(Trouble::Refused(format!(
                "the content unpacks to more than {MOST_TIMES} times its length, which is not looked at"
            )));
        }
        if all.is_empty() {
            *all = made
        } else {
            all.append(&mut made)
        }
        Ok(())
    }

    fn write(&mut self, data: &[u8]) -> io::Result<Vec<u8>> {
        if let How::Undecided(first) = &mut self.how {
            first.extend_from_slice(data);
            let [method, check, ..] = first[..] else { return Ok(Vec::new()) };
            let is_zlib = method & 15 == 8 && (u16::from(method) << 8 | u16::from(check)) % 31 == 0;
            let first = std::mem::take(first);
            self.how = How::Deflate(Deflate { decoder: Decompress::new(is_zlib), is_over: false });
            return self.write(&first);
        }
        match &mut self.how {
            How::Undecided(_) => Ok(Vec::new()),
            How::Gzip(decoder) => {
                decoder.write_all(data)?;
                decoder.flush()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
            How::Deflate(deflate) => deflate.write(data),
        }
    }

    fn finish(&mut self) -> io::Result<Vec<u8>> {
        match &mut self.how {
            How::Gzip(decoder) => {
                decoder.try_finish()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
            How::Deflate(Deflate { is_over: true, .. }) => Ok(Vec::new()),
            How::Undecided(_) | How::Deflate(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Looks into content that nobody calls packed, and that begins as if it were.
pub(super) struct Inside<'a> {
    watch: Watch<'a>,
    first: Vec<u8>,
    /// What it begins as is known.
    is_known: bool,
    unpack: Option<Box<Unpack>>,
}

impl<'a> Inside<'a> {
    pub(super) fn new(watch: Watch<'a>) -> Self {
        Self { watch, first: Vec::new(), is_known: false, unpack: None }
    }

    /// Looks at what passes by. What turns out to be something else is not looked into further.
    pub(super) fn look(&mut self, data: &[u8]) -> Result<(), Trouble> {
        if !self.is_known {
            let before = self.first.len();
            self.first.extend(data.iter().take(GZIP.len() - before));
            if self.first.len() < GZIP.len() && GZIP.starts_with(&self.first) {
                return Ok(());
            }
            self.is_known = true;
            if self.first == GZIP {
                self.unpack = Packing::Gzip.opens().map(Box::new);
                let first: Vec<u8> = self.first.drain(..before).collect();
                self.unpacked(&first)?;
            }
        }
        data.chunks(AT_ONCE).try_for_each(|some| self.unpacked(some))
    }

    fn unpacked(&mut self, data: &[u8]) -> Result<(), Trouble> {
        let Some(unpack) = &mut self.unpack else { return Ok(()) };
        match unpack.feed(data, false) {
            Ok(plain) => self.watch.look(&plain).map_err(Trouble::Astray),
            Err(trouble) if unpack.is_too_much() => Err(trouble),
            // Others may read it up to here, and overlook the rest.
            Err(_) => {
                let plain = unpack.left();
                self.unpack = None;
                self.watch.look(&plain).map_err(Trouble::Astray)
            }
        }
    }
}

/// One frame of zstd and nothing else, with a window that every reader has to have.
fn whole_zstd(mut packed: &[u8], most: u64) -> Option<Vec<u8>> {
    let mut frame = FrameDecoder::new();
    frame.set_max_window_size(WINDOW);
    let mut all = Vec::new();
    let decoder = StreamingDecoder::new_with_decoder(&mut packed, frame).ok()?;
    decoder.take(most + 1).read_to_end(&mut all).ok()?;
    (length(&all) <= most && packed.is_empty()).then_some(all)
}

/// All of some content that is there as a whole; none if it is more than this, or cannot be unpacked.
pub(super) fn whole(packed: &[u8], packing: &Packing, most: u64) -> Option<Vec<u8>> {
    if *packing == Packing::Zstd {
        return whole_zstd(packed, most);
    }
    let (mut unpack, mut all) = (packing.opens()?, Vec::new());
    for some in packed.chunks(AT_ONCE) {
        all.append(&mut unpack.feed(some, false).ok()?);
        if length(&all) > most {
            return None;
        }
    }
    all.append(&mut unpack.feed(b"", true).ok()?);
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn fields(all: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        all.iter().for_each(|(name, value)| fields.push(name, value.as_bytes()).unwrap());
        fields
    }

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn unpacked(packing: &Packing, packed: &[u8], step: usize) -> Result<Vec<u8>, Trouble> {
        let (mut unpack, mut all) = (packing.opens().unwrap(), Vec::new());
        for some in packed.chunks(step) {
            all.append(&mut unpack.feed(some, false)?);
        }
        all.append(&mut unpack.feed(b"", true)?);
        Ok(all)
    }

    #[test]
    fn egr_13_packed_content_is_unpacked_wherever_it_is_cut() {
        let text: Vec<u8> =
            (0..6_000_u32).flat_map(|number| (number * 7919).to_string().into_bytes()).collect();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(&text).unwrap();
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::default());
        raw.write_all(&text).unwrap();
        let (half, rest) = text.split_at(20_000);
        let members = [gzip(half), gzip(rest)].concat();
        for (packing, packed) in [
            (Packing::Gzip, gzip(&text)),
            (Packing::Gzip, members),
            (Packing::Deflate, zlib.finish().unwrap()),
            (Packing::Deflate, raw.finish().unwrap()),
        ] {
            for step in [1, 7, 1000, 1 << 20] {
                assert!(unpacked(&packing, &packed, step).unwrap() == text, "{packing:?} {step}");
            }
            // What is cut, changed or goes on is no such content.
            assert!(unpacked(&packing, &packed[..packed.len() - 9], 100).is_err(), "{packing:?}");
            assert!(unpacked(&packing, &[&packed[..], b"and more"].concat(), 100).is_err(), "{packing:?}");
        }
        assert_eq!(unpacked(&Packing::Gzip, b"", 1).unwrap(), b"");
    }

    #[test]
    fn egr_15_what_unpacks_to_a_thousand_times_its_length_is_given_up_and_never_kept() {
        let bomb = gzip(&vec![0; 64 << 20]);
        assert!(bomb.len() < 70_000);
        let (mut unpack, mut made) = (Packing::Gzip.opens().unwrap(), 0);
        let ended = bomb.chunks(AT_ONCE).try_for_each(|some| {
            let more = unpack.feed(some, false)?;
            assert!(more.len() < 4 << 20, "{}", more.len());
            made += more.len();
            Ok::<_, Trouble>(())
        });
        assert!(matches!(ended, Err(Trouble::Refused(why)) if why.contains("100 times its length")));
        assert!(made < 25 << 20, "{made}");
        assert_eq!(whole(&bomb, &Packing::Gzip, 1 << 20), None);
    }

    #[test]
    fn adv_c05_what_begins_as_packed_content_is_looked_into_wherever_it_is_cut() {
        const WORD: &str = "sk-ant-api03-WORDwordWORDword0123456789";
        let loan = egress::control::Loan {
            name: "KEY".into(),
            word: WORD.into(),
            value: egress::control::Value::new("sk-ant-api03-Secret".into()),
            in_content: true,
            ..egress::control::Loan::default()
        };
        let lent = crate::lent::Lent::new(vec![loan]);
        let looked = |data: &[u8], step: usize| {
            let mut inside = Inside::new(lent.watch());
            data.chunks(step).try_for_each(|some| inside.look(some))
        };
        let (packed, honest) = (gzip(format!("some {WORD}").as_bytes()), gzip(b"some text"));
        for step in [1, 2, 3, 50, 1000] {
            assert!(matches!(looked(&packed, step), Err(Trouble::Astray(_))), "{step}");
            assert!(looked(&honest, step).is_ok() && looked(b"\x1f\x8b\x08 and no such thing", step).is_ok());
            assert!(looked(b"\x1f\x8bother", step).is_ok() && looked(b"\x1f", step).is_ok());
        }
        // What is wrong behind it hides nothing.
        let mut wrong = packed.clone();
        let check = wrong.len() - 8;
        wrong[check] ^= 1;
        wrong.extend_from_slice(b"and more");
        for step in [1, 7, 50, 1000] {
            for count in [1, 9, 10, 50] {
                let more = [&packed[..], &vec![b'x'; count]].concat();
                assert!(matches!(looked(&more, step), Err(Trouble::Astray(_))), "{count} {step}");
                assert!(looked(&[&honest[..], &vec![b'x'; count]].concat(), step).is_ok());
            }
            assert!(matches!(looked(&wrong, step), Err(Trouble::Astray(_))), "{step}");
        }
        assert!(matches!(looked(&gzip(&vec![0; 32 << 20]), 1000), Err(Trouble::Refused(_))));
    }

    #[test]
    fn egr_13_one_frame_of_zstd_is_looked_at_as_a_whole() {
        let packed = compress_to_vec(&b"some text, some text, some text"[..], CompressionLevel::Fastest);
        let whole = |packed: &[u8], most| whole(packed, &Packing::Zstd, most);
        assert_eq!(whole(&packed, 100).unwrap(), b"some text, some text, some text");
        assert_eq!(whole(&packed, 20), None, "too much");
        assert_eq!(whole(&packed[..packed.len() - 3], 100), None, "cut");
        assert_eq!(whole(&[&packed[..], &packed].concat(), 100), None, "a second frame");
        assert_eq!(whole(&[&packed[..], b"x"].concat(), 100), None, "something after it");
        let large = compress_to_vec(&vec![0u8; 64 << 20][..], CompressionLevel::Fastest);
        assert!(large.len() < 64 << 10 && whole(&large, 8 << 20).is_none(), "a bomb");
        for odd in [&b""[..], b"x", b"\x28\xb5\x2f\xfd", &[0x28, 0xb5, 0x2f, 0xfd, 0, 0xf8, 1, 0, 0]] {
            assert_eq!(whole(odd, 100), None, "{odd:?}");
        }
    }

    #[test]
    fn egr_13_what_is_packed_in_another_way_is_told_apart() {
        let of = |all: &[(&str, &str)]| Packing::of(&fields(all));
        assert_eq!(of(&[("content-type", "x")]), Packing::No);
        assert_eq!(of(&[("Content-Encoding", "identity")]), Packing::No);
        assert_eq!(of(&[("Content-Encoding", " GZip ")]), Packing::Gzip);
        assert_eq!(of(&[("Content-Encoding", "identity, gzip")]), Packing::Gzip);
        assert_eq!(of(&[("content-encoding", "gzip, br")]), Packing::Other("gzip, br".into()));
        assert_eq!(
            of(&[("content-encoding", "gzip"), ("content-encoding", "gzip")]),
            Packing::Other("gzip, gzip".into())
        );
        assert_eq!(of(&[("grpc-encoding", "gzip")]), Packing::Other("gzip".into()));
        assert_eq!(of(&[("content-encoding", "zstd")]), Packing::Zstd);
        assert!(of(&[("content-encoding", "br")]).unseen().is_some_and(|why| why.contains("br")));
        assert!(Packing::Deflate.unseen().is_some() && Packing::Gzip.unseen().is_none());
    }
}
