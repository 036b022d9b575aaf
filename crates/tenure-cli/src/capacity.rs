//! What locks cost, and what that means for machines: `bench` measures it on people's own nodes,
//! `plan` computes with it. Everything here is arithmetic; `docs/capacity.md` has it in words.

pub(crate) mod costs;
pub(crate) mod limits;
pub(crate) mod load;
pub(crate) mod measured;
pub(crate) mod plan;
pub(crate) mod spread;
