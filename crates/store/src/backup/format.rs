//! The bytes of a backup: framed records, the same whatever engine wrote them.
//!
//! ```text
//! backup  = "PALISADE-STORE-1" record* ;         in this order: M*, then for each table by name T R*, then E
//! record  = tag:u8 length:u32 payload            numbers are big-endian
//! 'M'     = number:i64 name:text digest:text     one applied migration, by number
//! 'T'     = name:text count:u32 column:text*     a table and its columns in order
//! 'R'     = cell*                                a row of that table, ordered by primary key
//! 'E'     = rows:u64                             the end, with the number of R records
//! text    = length:u32 utf-8
//! cell    = 0 | 1 i64 | 2 text | 3 length:u32 bytes
//! ```
//!
//! Not here: secrecy and authenticity. Whoever keeps a backup seals it, and checks the seal before reading.

use std::io::{self, Read};

use crate::engine::Value;

/// How every backup begins.
pub(super) const MAGIC: &[u8; 16] = b"PALISADE-STORE-1";
/// No record is longer: PostgreSQL's own limit for a value.
const LONGEST: u32 = 1 << 30;

/// One record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    Migration { number: i64, name: String, digest: String },
    Table { name: String, columns: Vec<String> },
    Row(Vec<Value>),
    End { rows: u64 },
}

/// What is wrong with the bytes.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadRecord {
    #[error("the backup ends too early or cannot be read")]
    Io(#[from] io::Error),
    #[error("a record of the backup is malformed")]
    Malformed,
    #[error("a value is too long for a backup")]
    TooLong,
}

/// Appends `record` to `out`.
pub(super) fn write(record: &Record, out: &mut Vec<u8>) -> Result<(), BadRecord> {
    let mut body = Vec::new();
    let tag = match record {
        Record::Migration { number, name, digest } => {
            body.extend(number.to_be_bytes());
            put_bytes(&mut body, name.as_bytes())?;
            put_bytes(&mut body, digest.as_bytes())?;
            b'M'
        }
        Record::Table { name, columns } => {
            put_bytes(&mut body, name.as_bytes())?;
            put_length(&mut body, columns.len())?;
            columns.iter().try_for_each(|column| put_bytes(&mut body, column.as_bytes()))?;
            b'T'
        }
        Record::Row(cells) => {
            cells.iter().try_for_each(|cell| put_cell(&mut body, cell))?;
            b'R'
        }
        Record::End { rows } => {
            body.extend(rows.to_be_bytes());
            b'E'
        }
    };
    out.push(tag);
    put_bytes(out, &body)
}

fn put_cell(out: &mut Vec<u8>, cell: &Value) -> Result<(), BadRecord> {
    match cell {
        Value::Null => out.push(0),
        Value::Int(value) => {
            out.push(1);
            out.extend(value.to_be_bytes());
        }
        Value::Text(value) => {
            out.push(2);
            put_bytes(out, value.as_bytes())?;
        }
        Value::Blob(value) => {
            out.push(3);
            put_bytes(out, value)?;
        }
    }
    Ok(())
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), BadRecord> {
    put_length(out, bytes.len())?;
    out.extend(bytes);
    Ok(())
}

fn put_length(out: &mut Vec<u8>, length: usize) -> Result<(), BadRecord> {
    let length = u32::try_from(length).ok().filter(|length| *length <= LONGEST).ok_or(BadRecord::TooLong)?;
    out.extend(length.to_be_bytes());
    Ok(())
}

/// Reads the magic.
pub(super) fn read_magic(input: &mut impl Read) -> Result<(), BadRecord> {
    let mut magic = [0; 16];
    input.read_exact(&mut magic)?;
    if &magic == MAGIC { Ok(()) } else { Err(BadRecord::Malformed) }
}

/// Reads the next record. A length is believed only as far as bytes follow it.
pub(super) fn read(input: &mut impl Read) -> Result<Record, BadRecord> {
    let mut head = [0; 5];
    input.read_exact(&mut head)?;
    let [tag, length @ ..] = head;
    let length = u32::from_be_bytes(length);
    if length > LONGEST {
        return Err(BadRecord::TooLong);
    }
    let mut body = Vec::new();
    if input.take(u64::from(length)).read_to_end(&mut body)? as u64 != u64::from(length) {
        return Err(BadRecord::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    let mut rest = Rest(&body);
    let record = rest.record(tag).ok_or(BadRecord::Malformed)?;
    if rest.0.is_empty() { Ok(record) } else { Err(BadRecord::Malformed) }
}

/// What is left of a record's payload.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn record(&mut self, tag: u8) -> Option<Record> {
        Some(match tag {
            b'M' => Record::Migration { number: self.int()?, name: self.text()?, digest: self.text()? },
            b'T' => {
                let (name, count) = (self.text()?, self.length()?);
                Record::Table { name, columns: (0..count).map(|_| self.text()).collect::<Option<_>>()? }
            }
            b'R' => {
                let mut cells = Vec::new();
                while !self.0.is_empty() {
                    cells.push(self.cell()?);
                }
                Record::Row(cells)
            }
            b'E' => Record::End { rows: u64::from_be_bytes(self.array()?) },
            _ => return None,
        })
    }

    fn cell(&mut self) -> Option<Value> {
        let [tag] = self.array()?;
        Some(match tag {
            0 => Value::Null,
            1 => Value::Int(self.int()?),
            2 => Value::Text(self.text()?),
            3 => Value::Blob(self.bytes()?.to_vec()),
            _ => return None,
        })
    }

    fn text(&mut self) -> Option<String> {
        str::from_utf8(self.bytes()?).ok().map(str::to_owned)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.length()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn int(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    fn length(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_kind() -> Vec<Record> {
        let cells = vec![Value::Null, Value::Int(i64::MIN), "ü".into(), Value::Blob(vec![0, 255])];
        vec![
            Record::Migration { number: 7, name: "first".into(), digest: "d".into() },
            Record::Table { name: "t".into(), columns: vec!["a".into(), "b".into()] },
            Record::Row(cells),
            Record::Row(Vec::new()),
            Record::End { rows: 2 },
        ]
    }

    #[test]
    fn records_come_back_as_they_were() {
        let mut bytes = Vec::new();
        every_kind().iter().for_each(|record| write(record, &mut bytes).unwrap());
        let mut input = &bytes[..];
        for record in every_kind() {
            assert_eq!(read(&mut input).unwrap(), record);
        }
        assert!(input.is_empty());
    }

    #[test]
    fn cut_or_bent_records_are_refused_and_never_panic() {
        for record in every_kind() {
            let mut bytes = Vec::new();
            write(&record, &mut bytes).unwrap();
            for end in 0..bytes.len() {
                assert!(read(&mut &bytes[..end]).is_err(), "cut at {end}");
            }
            for position in 0..bytes.len() {
                for bit in 0..8 {
                    let mut bent = bytes.clone();
                    bent[position] ^= 1 << bit;
                    let _ = read(&mut &bent[..]); // any answer, no panic, no huge allocation
                }
            }
        }
    }
}
