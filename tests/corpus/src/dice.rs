//! Turns a seed into choices, the same on every machine.
//!
//! Every sample has dice of its own, made of the seed and the sample's name: a family that is added changes no other.

pub(crate) const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
pub(crate) const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
pub(crate) const DIGITS: &str = "0123456789";
pub(crate) const HEX: &str = "0123456789abcdef";
pub(crate) const UPPER_HEX: &str = "0123456789ABCDEF";
/// As AWS and other base-32 writers have it.
pub(crate) const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
pub(crate) const ALNUM: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
pub(crate) const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
pub(crate) const BASE64_URL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A stream of choices.
pub(crate) struct Dice(u64);

impl Dice {
    /// The dice of one sample.
    pub(crate) fn of(seed: u64, name: &[&str], round: usize) -> Self {
        // FNV-1a, with a byte between the words.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ seed;
        let bytes = name.iter().flat_map(|word| word.bytes().chain([0]));
        for byte in bytes.chain((round as u64).to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self(hash)
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// From the first to the second, both included.
    pub(crate) fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    pub(crate) fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// So many characters of an alphabet.
    pub(crate) fn run(&mut self, alphabet: &str, length: usize) -> String {
        let letters = alphabet.as_bytes();
        (0..length).map(|_| char::from(letters[self.below(letters.len())])).collect()
    }

    /// The same with an upper-case letter, a lower-case one and a digit in it.
    pub(crate) fn mixed(&mut self, alphabet: &str, length: usize) -> String {
        loop {
            let run = self.run(alphabet, length);
            let has = |is: fn(&char) -> bool| run.chars().any(|letter| is(&letter));
            if has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase) && has(char::is_ascii_digit) {
                return run;
            }
        }
    }

    pub(crate) fn hex(&mut self, length: usize) -> String {
        self.run(HEX, length)
    }

    pub(crate) fn digits(&mut self, length: usize) -> String {
        self.run(DIGITS, length)
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.below(256) as u8).collect()
    }

    pub(crate) fn uuid(&mut self) -> String {
        let (a, b, c, d, e) = (self.hex(8), self.hex(4), self.hex(3), self.hex(3), self.hex(12));
        format!("{a}-{b}-4{c}-{}{d}-{e}", self.run("89ab", 1))
    }

    /// A day and a time, as logs write them.
    pub(crate) fn time(&mut self) -> String {
        let (month, day) = (self.between(1, 12), self.between(1, 28));
        let (hour, minute, second) = (self.below(24), self.below(60), self.below(60));
        format!("2031-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", self.below(1000))
    }

    pub(crate) fn version(&mut self) -> String {
        format!("{}.{}.{}", self.below(12), self.below(30), self.below(20))
    }
}
