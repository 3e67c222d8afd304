//! The one table of characters that deceive an eye: those that turn the direction of writing, and those that cannot be seen.
//!
//! Two questions, since two things are done: where somebody reads what was said, only what turns words around is harmful;
//! where somebody decides by what stands there, nothing may stand there unseen.
//!
//! Not here: control characters (`char::is_control`) and what they do to terminals (`tame`).

/// Whether a character turns the direction of writing, or says where that begins and ends.
#[must_use]
pub const fn turns(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character cannot be seen as what it is: it has no width or looks like a blank that it is not, chooses a variant, or
/// breaks a line where few programs break one. All that [`turns`] is among them; blanks and control characters are not.
#[must_use]
pub const fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' // The soft hyphen, the joiner of graphemes.
        | '\u{61c}'
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' // Fillers of Hangul.
        | '\u{17b4}' | '\u{17b5}' // Vowels of Khmer that are not written.
        | '\u{180b}'..='\u{180f}' // Variants of Mongolian.
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' // Breaks of lines and paragraphs, and marks of direction.
        | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}' // Variants.
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' // Notes between lines.
        | '\u{1bca0}'..='\u{1bca3}' // Of shorthand.
        | '\u{1d173}'..='\u{1d17a}' // Of music.
        | '\u{e0000}'..='\u{e0fff}' // Tags, and more variants.
    )
}

/// The characters of a text, and whether each of them hides: cannot be seen, and is more than the style of a picture. What
/// chooses whether one sign is drawn in colour is in much honest text (a heart, a check mark) and changes only that sign.
pub fn hiding(text: &str) -> impl Iterator<Item = (char, bool)> {
    let mut before = '\0';
    text.chars().map(move |c| {
        let is_style = matches!(c, '\u{fe0e}' | '\u{fe0f}') && is_picture(before);
        before = c;
        (c, is_unseen(c) && !is_style)
    })
}

/// Whether a character is drawn as a picture by some: arrows, signs, and all that lies among the pictures.
const fn is_picture(c: char) -> bool {
    matches!(c, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{2bff}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let ranges = [
            (0xad, 0xad),
            (0x34f, 0x34f),
            (0x61c, 0x61c),
            (0x115f, 0x1160),
            (0x17b4, 0x17b5),
            (0x180b, 0x180f),
            (0x200b, 0x200f),
            (0x2028, 0x202e),
            (0x2060, 0x206f),
            (0x3164, 0x3164),
            (0xfe00, 0xfe0f),
            (0xfeff, 0xfeff),
            (0xffa0, 0xffa0),
            (0xfff9, 0xfffb),
            (0x1_bca0, 0x1_bca3),
            (0x1_d173, 0x1_d17a),
            (0xe_0000, 0xe_0fff),
        ];
        for c in ('\0'..=char::MAX).filter(|c| turns(*c) || is_unseen(*c)) {
            assert!(ranges.iter().any(|(first, last)| (*first..=*last).contains(&u32::from(c))), "{c:?}");
        }
        for c in ranges.iter().flat_map(|(first, last)| *first..=*last).filter_map(char::from_u32) {
            assert!(is_unseen(c) && !c.is_control(), "{c:?}");
        }
        assert!(('\0'..=char::MAX).all(|c| is_unseen(c) || !turns(c)));
    }

    #[test]
    fn a_style_hides_nothing_behind_a_picture_and_only_there() {
        let hidden = |text: &str| hiding(text).filter(|(_, hides)| *hides).count();
        for (text, count) in [
            ("done \u{2714}\u{fe0f} and \u{2764}\u{fe0f}, \u{1f600}\u{fe0e}", 0),
            ("\u{2714}\u{fe0f}\u{fe0f}", 1),
            ("\u{2714}\u{fe01}", 1),
            ("a\u{fe0f}b", 1),
            ("\u{fe0f}", 1),
            ("\u{1f468}\u{200d}\u{1f469}", 1),
            ("r\u{e0061}m\u{3164}", 2),
        ] {
            assert_eq!(hidden(text), count, "{}", text.escape_unicode());
        }
    }
}
