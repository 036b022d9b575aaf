//! Whoever extends a lock has held it without a gap: nobody else acquired it since.

use std::collections::BTreeMap;

use super::{Holder, Violation};

/// Who acquired each lock, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extension {
    acquisitions: BTreeMap<usize, Vec<Holder>>,
}

impl Extension {
    pub(crate) fn acquired(&mut self, name: usize, holder: Holder) {
        self.acquisitions.entry(name).or_default().push(holder);
    }

    /// `holder` has extended its lock.
    pub(crate) fn extended(&self, name: usize, holder: Holder) -> Option<Violation> {
        let acquisitions = self.acquisitions.get(&name)?;
        let own = acquisitions.iter().position(|other| *other == holder)?;
        let by = acquisitions.get(own + 1).copied()?;
        Some(Violation::Interrupted { name, holder, by })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Holder = Holder { client: 0, generation: 0, lease: 0 };
    const B: Holder = Holder { client: 1, generation: 0, lease: 0 };

    #[test]
    fn only_the_last_to_acquire_a_lock_extends_it() {
        let mut extension = Extension::default();
        extension.acquired(7, A);
        extension.acquired(8, B);
        assert_eq!(extension.extended(7, A), None);
        extension.acquired(7, B);
        assert_eq!(extension.extended(7, B), None);
        assert_eq!(extension.extended(7, A), Some(Violation::Interrupted { name: 7, holder: A, by: B }));
    }
}
