//! Histories in the virtual world.

mod campaign;
mod counterexamples;
mod mutants;
