//! How far a history is: faults first, then what must come about without them.
//!
//! ```text
//!   Safety ──► Calming ──► Live ──► Stopping ──► Over
//!   epochs     what is     every    everybody    nothing is
//!   of faults  under way   lock is  releases     left behind
//!              ends        got      and stops
//! ```

use crate::epoch::EVENTS_MIN;
use crate::world::World;

/// How far a history is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Safety,
    Over,
}

impl World {
    pub(crate) fn advance(&mut self) {
        if self.stage == Stage::Safety && self.epoch_is_over() {
            if self.events < EVENTS_MIN {
                self.next_epoch();
            } else {
                self.end_safety();
            }
        }
    }

    fn end_safety(&mut self) {
        self.check_rolling_restart();
        self.check_stuck();
        self.stage = Stage::Over;
    }
}
