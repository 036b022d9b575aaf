//! A short run of a fuzz target without the fuzzer, as an ordinary test: every seed, then seeds
//! with random changes. The changes come from a fixed number, so every run is the same.

use std::path::Path;

/// Enough for each target to see every kind of change often, in about a second.
const RUNS: usize = 4_000;

/// The most changes to one seed.
const CHANGES_MAX: usize = 6;

/// What parsers trip over.
const PIECES: &[&str] = &[
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775807",
    "-9223372036854775808",
    "ffffffffffffffff",
    "-1",
    "0",
    "+",
    "\r\n",
    "%",
    "%40",
    "@",
    "\u{e9}",
    "\0",
];

/// Gives the target all seeds of its folder, and changed ones.
pub(crate) fn run(target: &str, fuzz: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let read = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read(entry.unwrap().path()).unwrap();
    let mut seeds: Vec<Vec<u8>> = std::fs::read_dir(folder).unwrap().map(read).collect();
    assert!(!seeds.is_empty(), "{target} has no seeds");
    seeds.sort();
    for seed in &seeds {
        call(target, fuzz, seed);
    }
    let mut dice = Dice(0x7e40_5e1f);
    for _ in 0..RUNS {
        let mut bytes = seeds[dice.below(seeds.len())].clone();
        for _ in 0..=dice.below(CHANGES_MAX) {
            change(&mut bytes, &mut dice, &seeds);
        }
        call(target, fuzz, &bytes);
    }
}

fn call(target: &str, fuzz: fn(&[u8]), bytes: &[u8]) {
    if std::panic::catch_unwind(|| fuzz(bytes)).is_err() {
        panic!("fuzz target {target} fails on: {}", bytes.escape_ascii());
    }
}

fn change(bytes: &mut Vec<u8>, dice: &mut Dice, seeds: &[Vec<u8>]) {
    let at = dice.below(bytes.len() + 1);
    let end = bytes.len().min(at + dice.below(12));
    match dice.below(8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let again = bytes[at..end].to_vec();
            drop(bytes.splice(at..at, again));
        }
        3 => bytes.truncate(at),
        4 => {
            let other = &seeds[dice.below(seeds.len())];
            let from = dice.below(other.len() + 1);
            drop(bytes.splice(at..end, other[from..].iter().copied()));
        }
        5 => drop(bytes.splice(at..end, PIECES[dice.below(PIECES.len())].bytes())),
        // A whole number, or whatever is there, for one that overflows.
        _ => {
            let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
            let first = bytes[at..].iter().position(is_digit).map_or(at, |offset| at + offset);
            let digits = bytes[first..].iter().take_while(|byte| is_digit(byte)).count();
            drop(bytes.splice(first..first + digits, PIECES[dice.below(6)].bytes()));
        }
    }
}

/// The generator `SplitMix64`.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap_or(0)
    }
}
