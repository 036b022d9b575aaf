//! Names become the keys that PHP computes.

use std::time::Duration;

use anyhow::{Result, ensure};
use tenure_testkit::Dice;

use crate::driver::{Driver, now};
use crate::stage::Stage;

/// Names, and what PHP computed for them once.
const VECTORS: &[(&str, &str)] = &[
    ("testmutex", "423a00e308252b5e8cf4af55c7541d01"),
    ("a/b", "ad0aa3791602632e1ea136ac77403b31"),
    ("ü", "b7f48d43a54236ba724d398018f3ba4e"),
    ("\"\\", "1cb9bcd044aec562b6708f96221d85e7"),
    ("日本 😀", "440837a4c482a28b3a02a55edf6cb95a"),
    ("tab\t", "36d5637e8d28c3afceaaf2e5f16facd3"),
    ("", "cc5fcafbf3202dc88ebb0ea2dec4d118"),
];

pub(super) fn are_those_of_php(stage: &mut Stage<'_>) -> Result<String> {
    let mut theirs = stage.theirs()?;
    for (name, digest) in VECTORS {
        let key = key(&mut theirs, name)?;
        ensure!(key == format!("{}{digest}", crate::peer::YII2_PREFIX), "PHP says {key} for {name:?}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let locks = runtime.block_on(async { stage.locks() })?;
    let refused = runtime.block_on(locks.lock("").try_acquire()).map(|_| ());
    ensure!(refused.is_err(), "we took the empty name");
    // Other names each time; a failure names the seed.
    let (seed, names) = (now().subsec_nanos().into(), if stage.quick { 60 } else { 1_000 });
    let mut dice = Dice::new(seed);
    let random = (0..names).map(|_| random_name(&mut dice));
    let vectors = VECTORS.iter().map(|(name, _)| (*name).to_owned()).filter(|name| !name.is_empty());
    for name in vectors.chain(random) {
        let expected = key(&mut theirs, &name)?;
        let guard = runtime.block_on(locks.lock(&*name).node_timeout(Duration::from_secs(2)).acquire())?;
        let found = Stage::keys(&stage.servers[0]);
        ensure!(found == [expected.clone()], "seed {seed}: {name:?} is {found:?}, PHP says {expected}");
        runtime.block_on(guard.release())?;
    }
    Ok(format!("{} vectors and {names} random names; we refuse the empty one", VECTORS.len()))
}

fn key(theirs: &mut Driver, name: &str) -> Result<String> {
    let hex: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    Ok(theirs.must(&format!("key {hex}"))?.text("key")?.to_owned())
}

/// Of all planes and all lengths, with what JSON escapes more often than chance would have it.
fn random_name(dice: &mut Dice) -> String {
    let length = dice.between(1, 24);
    let character = |dice: &mut Dice| match dice.below(4) {
        0 => dice.pick(&['"', '\\', '/', '<', '>', '&', '\'', '\u{7f}', '\u{2028}', '\u{2029}']),
        1 => char::from(u8::try_from(dice.between(0x20, 0x7e)).unwrap_or(b' ')),
        2 => u32::try_from(dice.below(0x800)).ok().and_then(char::from_u32).unwrap_or('x'),
        // A surrogate is no character.
        _ => u32::try_from(dice.below(0x11_0000)).ok().and_then(char::from_u32).unwrap_or('x'),
    };
    (0..length).map(|_| character(dice)).collect()
}
