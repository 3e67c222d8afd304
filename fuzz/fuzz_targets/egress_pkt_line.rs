//! No bytes make the reader of pushes stumble; where they are cut does not matter; what goes on is what came, and every ref in
//! it was told.
#![no_main]

use egress::pkt_line::{BadPush, Push, PushReader, RefName};
use libfuzzer_sys::fuzz_target;

fn read(pieces: &[&[u8]]) -> Result<(Push, Vec<u8>), BadPush> {
    let mut reader = PushReader::new();
    for piece in pieces {
        let step = reader.read(piece)?;
        assert!(step.used <= piece.len());
        if step.done {
            break;
        }
        assert_eq!(step.used, piece.len(), "all of the input is used until the end");
    }
    reader.finish()
}

/// Lines with their lengths, so that the inside is reached.
fn in_lines(bytes: &[u8]) -> Vec<u8> {
    let one = |line: &[u8]| match line {
        [] => b"0000".to_vec(),
        line => [format!("{:04x}", line.len() + 4).as_bytes(), line].concat(),
    };
    bytes.split(|byte| *byte == b'\n').flat_map(one).collect()
}

fuzz_target!(|input: (&[u8], Vec<u16>)| {
    let (bytes, cuts) = input;
    for bytes in [bytes.to_vec(), in_lines(bytes)] {
        let mut places: Vec<usize> = cuts.iter().map(|cut| usize::from(*cut) % (bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let pieces: Vec<&[u8]> = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let whole = read(&[&bytes]);
        assert_eq!(read(&pieces), whole, "cuts matter");
        let Ok((push, taken)) = whole else { continue };
        assert!(bytes.starts_with(&taken) && taken.ends_with(b"0000"));
        for command in &push.commands {
            assert_eq!(RefName::parse(command.name.as_str().as_bytes()).as_ref(), Ok(&command.name));
        }
        assert_eq!(read(&[&taken]), Ok((push, taken.clone())));
    }
});
