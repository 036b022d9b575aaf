//! Histories in the virtual world.

mod campaign;
mod mutants;
mod witnesses;
