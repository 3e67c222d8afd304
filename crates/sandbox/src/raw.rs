//! Paths and words of the system in JSON: as text where they are text, else as a list of bytes.
//!
//! Invariant: what is read back is what was written, whatever its bytes.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One of them.
struct Word<T>(T);

impl<T: AsRef<OsStr> + ?Sized> Serialize for Word<&T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let bytes = self.0.as_ref().as_bytes();
        match std::str::from_utf8(bytes) {
            Ok(text) => to.serialize_str(text),
            Err(_) => bytes.serialize(to),
        }
    }
}

impl<'de, T: From<OsString>> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = OsString;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("text or bytes")
            }

            fn visit_str<E>(self, text: &str) -> Result<OsString, E> {
                Ok(text.into())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut bytes: A) -> Result<OsString, A::Error> {
                let mut all = Vec::new();
                while let Some(byte) = bytes.next_element()? {
                    all.push(byte);
                }
                Ok(OsString::from_vec(all))
            }
        }
        from.deserialize_any(Either).map(|word| Self(word.into()))
    }
}

pub(crate) fn serialize<T: AsRef<OsStr>, S: Serializer>(word: &T, to: S) -> Result<S::Ok, S::Error> {
    Word(word).serialize(to)
}

pub(crate) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    Word::deserialize(from).map(|Word(word)| word)
}

/// One that need not be there.
pub(crate) mod maybe {
    use super::*;

    pub(crate) fn serialize<T: AsRef<OsStr>, S: Serializer>(
        word: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        word.as_ref().map(Word).serialize(to)
    }

    pub(crate) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        Ok(Option::<Word<T>>::deserialize(from)?.map(|Word(word)| word))
    }
}

/// Many.
pub(crate) mod all {
    use super::*;

    pub(crate) fn serialize<T: AsRef<OsStr>, S: Serializer>(words: &[T], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(words.iter().map(Word))
    }

    pub(crate) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<T>, D::Error> {
        Ok(Vec::<Word<T>>::deserialize(from)?.into_iter().map(|Word(word)| word).collect())
    }
}

/// Many, in pairs.
pub(crate) mod pairs {
    use super::*;

    pub(crate) fn serialize<T: AsRef<OsStr>, S: Serializer>(
        pairs: &[(T, T)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(pairs.iter().map(|(name, value)| (Word(name), Word(value))))
    }

    pub(crate) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(T, T)>, D::Error> {
        let all = Vec::<(Word<T>, Word<T>)>::deserialize(from)?;
        Ok(all.into_iter().map(|(Word(name), Word(value))| (name, value)).collect())
    }
}

/// Many, each with bytes.
pub(crate) mod files {
    use super::*;

    pub(crate) fn serialize<T: AsRef<OsStr>, S: Serializer>(
        files: &[(T, Vec<u8>)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(files.iter().map(|(at, bytes)| (Word(at), Word(OsStr::from_bytes(bytes)))))
    }

    pub(crate) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(T, Vec<u8>)>, D::Error> {
        let all = Vec::<(Word<T>, Word<OsString>)>::deserialize(from)?;
        Ok(all.into_iter().map(|(Word(at), Word(bytes))| (at, bytes.into_vec())).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Everything {
        #[serde(with = "super")]
        one: PathBuf,
        #[serde(with = "super::maybe")]
        none: Option<PathBuf>,
        #[serde(with = "super::all")]
        many: Vec<OsString>,
        #[serde(with = "super::files")]
        files: Vec<(PathBuf, Vec<u8>)>,
        #[serde(with = "super::pairs")]
        pairs: Vec<(OsString, OsString)>,
    }

    #[test]
    fn what_is_no_text_comes_back_as_it_was() {
        let strange = OsString::from_vec(vec![b'/', 0xff, b'"', 0x80]);
        let whole = Everything {
            one: strange.clone().into(),
            none: None,
            many: vec!["plain".into(), strange.clone(), "".into()],
            files: vec![("/etc/x".into(), b"text\n".to_vec()), (strange.clone().into(), vec![0, 255])],
            pairs: vec![("PATH".into(), strange), ("".into(), "a b".into())],
        };
        let text = serde_json::to_string(&whole).unwrap();
        assert!(text.contains("\"plain\""), "{text}");
        assert_eq!(serde_json::from_str::<Everything>(&text).unwrap(), whole);
    }
}
