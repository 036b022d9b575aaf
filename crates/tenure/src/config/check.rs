//! Whether settings that can be understood can also work, as far as that can be told without asking
//! a node.

use tenure_core::{MaxTtl, OptionError, Prefix, Quorum};

use super::{Config, ConfigError, Source};
use crate::node::{Node, listed_twice};

impl Config {
    /// Checks that locks could be acquired with these settings. Asks no node and creates nothing.
    ///
    /// # Errors
    /// [`ConfigError`] says what is wrong, and where it comes from.
    pub fn check(&self) -> Result<(), ConfigError> {
        let wrong = |source: &Source, problem: &dyn std::fmt::Display| {
            ConfigError::invalid(format!("{source}: {problem}"))
        };
        let nodes =
            self.nodes.value.iter().map(|url| Node::parse(url.as_str())).collect::<Result<Vec<_>, _>>();
        let nodes = nodes.map_err(|error| wrong(&self.nodes.source, &error))?;
        Quorum::of(nodes.len()).map_err(|error| wrong(&self.nodes.source, &error))?;
        if let Some(node) = listed_twice(&nodes) {
            let problem =
                format!("node {} is listed twice; every node must be an independent store", node.address());
            return Err(wrong(&self.nodes.source, &problem));
        }
        Prefix::new(&self.prefix.value).map_err(|error| wrong(&self.prefix.source, &error))?;
        let max_ttl = MaxTtl::new(self.max_ttl.value).map_err(|error| wrong(&self.max_ttl.source, &error))?;
        self.options().check(max_ttl).map_err(|error| {
            let source = match error {
                OptionError::NodeTimeout { .. } => &self.node_timeout.source,
                OptionError::MaxHold { .. } => &self.max_hold.source,
                OptionError::Label { .. } => &self.label.source,
                _ => &self.ttl.source,
            };
            wrong(source, &error)
        })?;
        Ok(())
    }
}
