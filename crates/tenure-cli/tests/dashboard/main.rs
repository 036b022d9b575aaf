//! The dashboard in a real browser: `tenure serve` on five Redis servers, Debian's Chromium driven
//! by its own driver, and axe-core for accessibility. Where one of them is missing the tests are
//! skipped; `cargo xtask test --all` installs them.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

mod accessible;
mod assets;
mod browser;
mod force;
mod gone;
mod hostile;
mod keyboard;
mod load;
mod log_in;
mod nodes;
mod pages;
mod pictures;
mod stage;
