//! `docs/explanation/guard.svg`: two chaos campaigns with the same faults, with and without the
//! restart guard, one above the other.

use anyhow::{Context, Result};

use crate::chaos;
use crate::command::target_folder;

const PICTURE: &str = "docs/explanation/guard.svg";

/// Few locks and clients, so that a row is still to be seen in a README.
const CAMPAIGN: &[&str] =
    &["--seconds", "60", "--seed", SEED, "--locks", "3", "--clients", "5", "--window", "12"];

/// A campaign that empties nodes under holders early on.
const SEED: &str = "20261115";

pub(super) fn run() -> Result<()> {
    let folder = std::path::absolute(target_folder())?;
    let (with, without) = (folder.join("with-guard.svg"), folder.join("without-guard.svg"));
    let text = |path: &std::path::Path| path.to_str().map(str::to_owned).context("the path is not text");
    // The second shows where exclusion breaks first; the other the same seconds.
    chaos::run(&[CAMPAIGN, &["--unguarded", "--picture", &text(&without)?]].concat())?;
    let without = std::fs::read_to_string(&without)?;
    let from = seconds_of(&without).context("the picture does not say which seconds it shows")?;
    chaos::run(&[CAMPAIGN, &["--from", from, "--picture", &text(&with)?]].concat())?;
    let with = std::fs::read_to_string(&with)?;
    std::fs::write(PICTURE, stacked(&with, &without).context("these are no pictures")?)?;
    println!("    {PICTURE}");
    Ok(())
}

/// From which second on it shows: "... seconds 12 to 24 of 60".
fn seconds_of(picture: &str) -> Option<&str> {
    picture.split_once(": seconds ")?.1.split(' ').next()
}

/// Two pictures in one, the second below the first.
fn stacked(upper: &str, lower: &str) -> Option<String> {
    let number = |picture: &str, name: &str| {
        let (_, rest) = picture.split_once(&format!("{name}=\""))?;
        rest.split('"').next()?.parse::<u32>().ok()
    };
    let (width, height, below) =
        (number(upper, " width")?, number(upper, " height")?, number(lower, " height")?);
    let lower = lower.replacen("<svg ", &format!("<svg y=\"{height}\" "), 1);
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {all}\" width=\"{width}\" \
         height=\"{all}\">\n{upper}\n{lower}\n</svg>\n",
        all = height + below
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_put_one_below_the_other() {
        let one =
            "<svg xmlns=\"x\" width=\"20\" height=\"10\"><text>Chaos: seconds 7 to 9 of 60</text></svg>";
        assert_eq!(seconds_of(one), Some("7"));
        let both = stacked(one, one).expect("two pictures");
        assert!(both.contains("viewBox=\"0 0 20 20\"") && both.contains("<svg y=\"10\" xmlns"), "{both}");
    }
}
