//! What the nodes said to a request, as it is told: by them, or by a service that asked them.

use serde_json::{Value, json};
use tenure::Votes;
use tenure_server::form;

/// One vote a node, as JSON.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ballot(Vec<Value>);

impl From<&Votes> for Ballot {
    fn from(votes: &Votes) -> Self {
        Self::read(&json!(form::votes(votes)))
    }
}

impl Ballot {
    pub(crate) fn read(told: &Value) -> Self {
        Self(told.as_array().cloned().unwrap_or_default())
    }

    pub(crate) fn granted(&self) -> usize {
        self.0.iter().filter(|vote| vote["vote"] == "granted").count()
    }

    pub(crate) const fn nodes(&self) -> usize {
        self.0.len()
    }

    /// Whether it is a file that was asked, and no node elsewhere.
    pub(crate) fn is_of_store(&self) -> bool {
        let is_file = |vote: &Value| vote["node"].as_str().is_some_and(|node| node.starts_with("sqlite:"));
        !self.0.is_empty() && self.0.iter().all(is_file)
    }

    pub(crate) fn json(&self) -> &[Value] {
        &self.0
    }
}
