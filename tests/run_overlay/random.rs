//! Any sequence of acts, in a layer and without one, comes to the same.

use crate::scene::{Scene, everybody, shape, snapshot};

/// Numbers that are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn path(&mut self) -> String {
        let depth = 1 + self.roll(3);
        let names = ["a", "b", "c", "d e", "-f"];
        let parts: Vec<&str> = (0..depth).map(|_| names[usize::try_from(self.roll(5)).unwrap()]).collect();
        format!("\"./{}\"", parts.join("/"))
    }

    fn act(&mut self) -> String {
        let (one, other, number) = (self.path(), self.path(), self.roll(1_000));
        match self.roll(15) {
            0..=2 => format!("echo {number} > {one}"),
            3 => format!("echo {number} >> {one}"),
            4 | 5 => format!("mkdir -p {one}"),
            6 => format!("rm -rf {one}"),
            7 => format!("rm -f {one}"),
            8 => format!("mv -T {one} {other}"),
            9 => format!("mv {one} {other}"),
            10 => format!("ln -sfn {number} {one}"),
            11 => format!(
                "chmod {} {one}",
                ["600", "755", "444", "700", "751", "500"][usize::try_from(number % 6).unwrap()]
            ),
            12 => format!("cp -r {one} {other}"),
            13 => format!("rm -rf {one}; mkdir {one}; echo {number} > {one}/new"),
            _ => format!("truncate -s {number} {one}"),
        }
    }

    fn script(&mut self, acts: u64) -> String {
        (0..acts).map(|_| format!("({}) 2>/dev/null\n", self.act())).collect::<String>() + "true"
    }
}

#[test]
fn a_layer_that_is_applied_is_what_the_acts_themselves_would_have_done() {
    for who in everybody() {
        for seed in 1..=tests::scale(600, 20) as u64 {
            let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            for _ in 0..8 {
                dice.roll(2);
            }
            let (before, inside) = (dice.script(14), dice.script(18));
            let story = format!("{who:?}, seed {seed}\n{before}\n-- inside --\n{inside}");
            let scene = Scene::new(who, &before);
            let was = snapshot(&scene.worktree());
            let direct = scene.copy("direct");
            scene.plain_without_rights(&direct, &inside);
            scene.run(&inside);
            assert_eq!(snapshot(&scene.worktree()), was, "shows on the host: {story}");
            if scene.json(&["runs"]).as_array().unwrap().is_empty() {
                assert_eq!(shape(&scene.worktree()), shape(&direct), "nothing changed: {story}");
                continue;
            }
            let said = scene.palisade(&["apply"]);
            assert_eq!(said.code, 0, "{}{story}", said.err);
            assert_eq!(shape(&scene.worktree()), shape(&direct), "applied: {story}");
            scene.done(&["apply", "--undo"]);
            assert_eq!(snapshot(&scene.worktree()), was, "undone: {story}");
            scene.done(&["discard"]);
            assert_eq!(snapshot(&scene.worktree()), was, "discarded: {story}");
        }
    }
}
