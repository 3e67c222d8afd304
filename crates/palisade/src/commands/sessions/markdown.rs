//! Turns what an agent says, as it comes, into text for a terminal: headings, bold, code, lists.
//!
//! Invariants: where the stream was cut does not matter, since it is read character by character; nothing in it acts on the
//! terminal or turns the direction of writing: its own colours are left out, other control characters are shown as pictures;
//! what cannot be seen is left out, but for what letters and pictures are written with;
//! no style outlasts its line; what is held back has a bound.

use redact::{is_unseen, turns};

/// Characters that are held back until it is known what they begin.
const HELD: usize = 256;
/// Stars or strokes in a row that can mean something.
const RUN: usize = 3;

const RESET: &str = "\x1b[0m";
const DIM: &str = "\x1b[2m";
const CODE: &str = "\x1b[36m";

/// What a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    /// Not known yet: what came of it.
    Head(String),
    Text,
    Heading,
    /// A line of a block of code.
    Code,
}

/// A text that is being said.
#[derive(Debug)]
pub(super) struct Markdown {
    plain: Plain,
    line: Line,
    /// The block of code that it is in: by which character, and how many of them.
    fence: Option<(char, usize)>,
    is_bold: bool,
    is_slanted: bool,
    /// In a piece of code within a line, by so many strokes.
    code: Option<usize>,
    /// Stars or strokes that wait for what comes after them.
    run: Option<(char, usize)>,
    before: char,
    out: String,
}

impl Default for Markdown {
    fn default() -> Self {
        Self {
            plain: Plain::default(),
            line: Line::Head(String::new()),
            fence: None,
            is_bold: false,
            is_slanted: false,
            code: None,
            run: None,
            before: '\n',
            out: String::new(),
        }
    }
}

impl Markdown {
    /// What is to be shown now that this came.
    pub(super) fn push(&mut self, text: &str) -> String {
        for c in text.chars() {
            let (shown, count) = self.plain.take(c);
            for c in shown.into_iter().take(count) {
                self.take(c);
            }
        }
        std::mem::take(&mut self.out)
    }

    /// Nothing more comes: what was held back, and a beginning for what is said next.
    pub(super) fn finish(&mut self) -> String {
        if let Line::Head(head) = &mut self.line {
            let head = std::mem::take(head);
            self.line = Line::Text;
            head.chars().for_each(|c| self.inline(c));
        }
        self.end_run('\n');
        self.reset();
        let out = std::mem::take(&mut self.out);
        *self = Self::default();
        out
    }

    fn take(&mut self, c: char) {
        if c == '\n' {
            return self.end_line();
        }
        match &mut self.line {
            Line::Head(head) => {
                head.push(c);
                let head = head.clone();
                self.begin(&head);
            }
            Line::Text | Line::Heading => self.inline(c),
            Line::Code => self.out.push(c),
        }
    }

    fn end_line(&mut self) {
        if let Line::Head(head) = &mut self.line {
            let head = std::mem::take(head);
            let (mark, count) = strokes(&head);
            match self.fence {
                Some((open, least)) if mark == open && count >= least && is_only(&head, mark) => {
                    self.fence = None;
                    self.out.push_str(&format!("{DIM}{head}{RESET}"));
                }
                Some(_) => self.out.push_str(&format!("{CODE}{head}{RESET}")),
                None if count >= 3 => {
                    self.fence = Some((mark, count));
                    self.out.push_str(&format!("{DIM}{head}{RESET}"));
                }
                None => {
                    self.line = Line::Text;
                    head.chars().for_each(|c| self.inline(c));
                }
            }
        }
        self.end_run('\n');
        if self.line == Line::Code {
            self.out.push_str(RESET);
        }
        self.reset();
        self.out.push('\n');
        (self.line, self.before) = (Line::Head(String::new()), '\n');
    }

    /// Decides what a line is, as soon as that is known.
    fn begin(&mut self, head: &str) {
        let (mark, count) = strokes(head);
        if self.fence.is_some() {
            let may_end = head.trim_start().is_empty() || (count > 0 && is_only(head, mark));
            if !may_end || head.len() > HELD {
                self.line = Line::Code;
                self.out.push_str(&format!("{CODE}{head}"));
            }
            return;
        }
        let indent = head.len() - head.trim_start_matches(' ').len();
        let (spaces, rest) = head.split_at(indent);
        let is_open = match rest.chars().next() {
            None => true,
            Some('#') => rest.len() <= 6 && rest.chars().all(|c| c == '#'),
            Some('-' | '+' | '*') => rest.len() == 1,
            Some('`' | '~') if count < 3 => is_only(rest, mark),
            // What has further strokes is code within a line.
            Some('`') => !rest.trim_start_matches('`').contains('`'),
            Some('~') => true,
            Some(_) => false,
        };
        if is_open && head.len() <= HELD {
            return;
        }
        self.line = Line::Text;
        if rest.starts_with('#') && rest.ends_with(' ') && rest.trim_end_matches(' ').len() <= 6 && !is_open {
            self.line = Line::Heading;
            self.is_bold = true;
            return self.style();
        }
        if matches!(rest, "- " | "* " | "+ ") {
            self.out.push_str(&format!("{spaces}• "));
            self.before = ' ';
            return;
        }
        head.chars().for_each(|c| self.inline(c));
    }

    fn inline(&mut self, c: char) {
        match self.run {
            Some((mark, count)) if mark == c && count < RUN => return self.run = Some((mark, count + 1)),
            Some(_) => self.end_run(c),
            None => {}
        }
        match c {
            '`' => self.run = Some((c, 1)),
            '*' if self.code.is_none() => self.run = Some((c, 1)),
            _ => self.put(c),
        }
    }

    fn put(&mut self, c: char) {
        self.out.push(c);
        self.before = c;
    }

    /// What stars and strokes meant, now that it is known what follows.
    fn end_run(&mut self, next: char) {
        let Some((mark, count)) = self.run.take() else { return };
        let opens = next.is_alphanumeric() || "`\"'([{<_".contains(next);
        let (stays, closes) = (self.before.is_alphanumeric(), !self.before.is_whitespace());
        match (mark, self.code) {
            ('`', Some(open)) if open == count => self.code = None,
            ('`', None) if next != '\n' => self.code = Some(count),
            ('*', None) if count == 1 && self.is_slanted && closes => self.is_slanted = false,
            ('*', None) if count == 1 && !self.is_slanted && opens && !stays => self.is_slanted = true,
            ('*', None) if count == 2 && self.is_bold && closes => self.is_bold = false,
            ('*', None) if count == 2 && !self.is_bold && opens => self.is_bold = true,
            _ => return (0..count).for_each(|_| self.put(mark)),
        }
        self.style();
    }

    fn style(&mut self) {
        self.out.push_str(RESET);
        let styles = [
            (self.is_bold, "\x1b[1m"),
            (self.line == Line::Heading, "\x1b[4m"),
            (self.is_slanted, "\x1b[3m"),
            (self.code.is_some(), CODE),
        ];
        styles.iter().filter(|(is_on, _)| *is_on).for_each(|(_, code)| self.out.push_str(code));
    }

    fn reset(&mut self) {
        if self.is_bold || self.is_slanted || self.code.is_some() {
            self.out.push_str(RESET);
        }
        (self.is_bold, self.is_slanted, self.code) = (false, false, None);
    }
}

/// The strokes that a line begins with: which, and how many.
fn strokes(head: &str) -> (char, usize) {
    let rest = head.trim_start_matches(' ');
    match rest.chars().next() {
        Some(mark @ ('`' | '~')) => (mark, rest.chars().take_while(|c| *c == mark).count()),
        _ => (' ', 0),
    }
}

fn is_only(head: &str, mark: char) -> bool {
    head.trim().chars().all(|c| c == mark)
}

/// Takes out of a text, character by character, what acts on a terminal or deceives the eye.
#[derive(Debug, Default)]
pub(super) struct Plain {
    escape: Escape,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    Begun,
    /// Within a sequence that may be a colour.
    Colour,
}

impl Plain {
    /// What is shown for a character: up to three, and how many.
    fn take(&mut self, c: char) -> ([char; 3], usize) {
        let none = (['\0'; 3], 0);
        match (self.escape, c) {
            (_, '\x1b') => {
                let cut = self.escape == Escape::Begun;
                self.escape = Escape::Begun;
                if cut { (['␛', '\0', '\0'], 1) } else { none }
            }
            (Escape::Begun, '[') => {
                self.escape = Escape::Colour;
                none
            }
            (Escape::Begun, _) => {
                self.escape = Escape::None;
                (['␛', shown(c), '\0'], 1 + usize::from(c != '\r'))
            }
            // A colour of the agent's own is left out: it could hide what is written.
            (Escape::Colour, '0'..='9' | ';' | ':') => none,
            (Escape::Colour, _) => {
                self.escape = Escape::None;
                if c == 'm' { none } else { (['␛', '[', shown(c)], 2 + usize::from(c != '\r')) }
            }
            (Escape::None, '\r') => none,
            (Escape::None, _) if is_left_out(c) => none,
            (Escape::None, _) => ([shown(c), '\0', '\0'], 1),
        }
    }

    /// A whole text.
    pub(super) fn text(text: &str) -> String {
        let mut plain = Self::default();
        text.chars()
            .flat_map(|c| {
                let (all, count) = plain.take(c);
                all.into_iter().take(count)
            })
            .collect()
    }
}

fn shown(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\x7f' => '␡',
        _ if turns(c) || is_left_out(c) || c.is_control() => '\u{fffd}',
        _ => c,
    }
}

/// Whether a character is nothing to a reader, and may only be meant for whoever copies it. What joins or parts letters and what
/// chooses the style of a picture stays, as honest words are written with it; nothing is decided by what is only said.
fn is_left_out(c: char) -> bool {
    is_unseen(c) && !turns(c) && !matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> String {
        let mut markdown = Markdown::default();
        let mut out = markdown.push(text);
        out.push_str(&markdown.finish());
        out
    }

    const SAMPLES: &[&str] = &[
        "# A heading\nplain **bold** and *slanted* and `code` and ***both***.\n\n- one\n  * two\n+ three\n1. four\n",
        "```rust\nfn main() { let a = **b; }\n  ``` not yet\n```\nafter **it\nnext* line **",
        "~~~\n```\n~~~\n```x``` is code in a line\n``a`b`` and `unfinished\n",
        "####### no heading\n#nor this\n ## but this **one** `too`\n2 * 3 * 4, **/*.rs, a*b*c, f(**kwargs)\n",
        "\x1b[31mred\x1b[0m \x1b[2J\x1b]52;c;AAAA\x07 a\rb \u{202e}evil\u{202c} \u{9b}31m \x1b\x1b[8m\x1b",
        "* \n*\n-\n`\n``\n```\n````\n```\n````\nend",
        "\u{1f600} ä **ß** `é`\n> quoted *words*\n\t tab\n     \n#",
    ];

    /// Wherever the stream is cut, the same is shown.
    #[test]
    fn any_cut_of_the_stream_shows_the_same() {
        for sample in SAMPLES {
            let whole = rendered(sample);
            let ends: Vec<usize> = sample.char_indices().map(|(at, _)| at).chain([sample.len()]).collect();
            for cut in &ends {
                let mut markdown = Markdown::default();
                let (first, second) = sample.split_at(*cut);
                let shown = [markdown.push(first), markdown.push(second), markdown.finish()].concat();
                assert_eq!(shown, whole, "{sample:?} cut at {cut}");
            }
            for size in 1..7 {
                let mut markdown = Markdown::default();
                let all: Vec<char> = sample.chars().collect();
                let mut shown: String =
                    all.chunks(size).map(|piece| markdown.push(&piece.iter().collect::<String>())).collect();
                shown.push_str(&markdown.finish());
                assert_eq!(shown, whole, "{sample:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn what_is_marked_is_shown_as_it_is_meant() {
        assert_eq!(rendered("# Top\nx"), "\x1b[0m\x1b[1m\x1b[4mTop\x1b[0m\nx");
        assert_eq!(rendered("a **b** c"), "a \x1b[0m\x1b[1mb\x1b[0m c");
        assert_eq!(rendered("- one\n"), "• one\n");
        assert_eq!(rendered("use `x` now"), "use \x1b[0m\x1b[36mx\x1b[0m now");
        assert_eq!(
            rendered("```\nlet **a**\n```\n"),
            "\x1b[2m```\x1b[0m\n\x1b[36mlet **a**\x1b[0m\n\x1b[2m```\x1b[0m\n"
        );
        for literal in
            ["2 * 3 * 4", "**/*.rs", "a*b*c d", "#nor this", "- - -".get(4..).unwrap(), "snake_case_name"]
        {
            assert_eq!(rendered(literal), literal);
        }
        assert_eq!(rendered("**open\nnext"), "\x1b[0m\x1b[1mopen\x1b[0m\nnext", "no style outlasts its line");
    }

    /// ADV: nothing but colours of ours reaches the terminal.
    #[test]
    fn nothing_that_is_said_acts_on_the_terminal() {
        for sample in SAMPLES {
            let mut out = rendered(sample);
            for own in [RESET, DIM, CODE, "\x1b[1m", "\x1b[3m", "\x1b[4m"] {
                out = out.replace(own, "");
            }
            let acts = |c: char| (c.is_control() && c != '\n' && c != '\t') || turns(c);
            assert!(!out.contains(acts), "{out:?}");
        }
        assert_eq!(Plain::text("\x1b[8mhidden\x1b[0m\x1b[2J"), "hidden␛[J");
        assert_eq!(
            Plain::text("\u{feff}a\u{200b}b\u{e0041}\u{3164}c\u{2028}\u{202e}d"),
            "abc\u{fffd}d",
            "nothing goes with what is copied"
        );
        let honest = "\u{2714}\u{fe0f} \u{1f468}\u{200d}\u{1f469} \u{645}\u{6cc}\u{200c}\u{62e}";
        assert_eq!(Plain::text(honest), honest);
    }

    #[test]
    fn what_is_held_back_has_a_bound() {
        for endless in [" ", "#", "`", "~", "*", "\x1b[1;"] {
            let mut markdown = Markdown::default();
            let shown = markdown.push(&endless.repeat(100_000));
            let held = match &markdown.line {
                Line::Head(head) => head.len(),
                _ => 0,
            };
            assert!(held <= HELD + 1, "{endless:?}: {held} of {}", shown.len());
        }
    }
}
