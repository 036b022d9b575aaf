//! A [`Fence`] as a number, for fields of your own:
//! `#[serde(with = "tenure::form::fence")]`.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use tenure::Fence;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Write {
//!     #[serde(with = "tenure::form::fence")]
//!     fence: Fence,
//!     text: String,
//! }
//!
//! let write: Write = serde_json::from_str(r#"{"fence": 1700000000000000, "text": "hello"}"#)?;
//! assert_eq!(write.fence, Fence::new(1_700_000_000_000_000));
//! assert_eq!(serde_json::to_string(&write)?, r#"{"fence":1700000000000000,"text":"hello"}"#);
//! # Ok::<(), serde_json::Error>(())
//! ```

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tenure_core::Fence;

/// Writes the number; [`Fence::NONE`] is 0.
///
/// # Errors
/// Those of the format.
pub fn serialize<S: Serializer>(fence: &Fence, serializer: S) -> Result<S::Ok, S::Error> {
    fence.get().serialize(serializer)
}

/// Reads the number.
///
/// # Errors
/// Those of the format, and if it is not a number.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fence, D::Error> {
    u64::deserialize(deserializer).map(Fence::new)
}
