//! No bytes make the reader of frames stumble; where they are cut does not matter; what is written again is read the same.
#![no_main]

use egress::websocket::{BadFrame, Compression, Event, Reader, Sender};
use libfuzzer_sys::fuzz_target;

const BOUND: usize = 512;

/// Everything that was read, with the pieces of one message put together.
fn events(sender: Sender, compression: Compression, pieces: &[&[u8]]) -> (Vec<Event>, Option<BadFrame>) {
    let mut reader = Reader::new(sender, compression, BOUND, 4096);
    let mut found: Vec<Event> = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let step = match reader.read(rest) {
                Ok(step) => step,
                Err(why) => return (found, Some(why)),
            };
            assert!(step.used > 0, "a step that does not go on");
            rest = &rest[step.used..];
            let Some(event) = step.event else { continue };
            assert!(!matches!(&event, Event::Text(text) if text.len() > BOUND));
            match (found.last_mut(), event) {
                (
                    Some(Event::Piece { bytes, last, .. }),
                    Event::Piece { bytes: more, first: false, last: end, .. },
                ) if !*last => {
                    bytes.extend(more);
                    *last = end;
                }
                (_, event) => found.push(event),
            }
        }
    }
    (found, None)
}

fuzz_target!(|input: (&[u8], Vec<u16>, bool, bool)| {
    let (bytes, cuts, client, agreed) = input;
    let sender = if client { Sender::Client } else { Sender::Server };
    let compression = if agreed { Compression::Agreed } else { Compression::None };
    let mut places: Vec<usize> = cuts.iter().map(|cut| usize::from(*cut) % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    let pieces: Vec<&[u8]> = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
    let whole = events(sender, compression, &[bytes]);
    assert_eq!(events(sender, compression, &pieces), whole, "cuts matter");

    let mut out = Vec::new();
    whole.0.iter().for_each(|event| event.write(&mut out, client.then_some([1, 2, 3, 4])));
    // A message that is not over is put together into a longer frame than it came in, and that has a bound too.
    if out.len() <= 4096 {
        assert_eq!(events(sender, compression, &[&out]), (whole.0, None), "written again");
    }
});
