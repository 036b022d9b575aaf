//! Leaders and changes of a node list, as data.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tenure_core::Fence;

use super::milliseconds;
use crate::fleet::FleetProgress;
use crate::leader::Incumbent;

#[derive(Serialize, Deserialize)]
#[serde(rename = "Incumbent")]
struct IncumbentForm {
    label: Option<String>,
    epoch: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename = "FleetProgress")]
struct ProgressForm<'a> {
    step: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_ms: Option<u64>,
}

impl Serialize for Incumbent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (label, epoch) = (super::text(self.label.as_ref()), super::number(self.epoch));
        IncumbentForm { label, epoch }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Incumbent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let IncumbentForm { label, epoch } = IncumbentForm::deserialize(deserializer)?;
        Ok(Self { label: label.map(Into::into), epoch: epoch.map_or(Fence::NONE, Fence::new) })
    }
}

impl Serialize for FleetProgress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (step, nodes, left) = match self {
            Self::Reaching(nodes) => ("reaching", Some(&**nodes), None),
            Self::Prepared => ("prepared", None, None),
            Self::Closed => ("closed", None, None),
            Self::Waiting { left } => ("waiting", None, Some(*left)),
            Self::Clocks { left } => ("clocks", None, Some(*left)),
            Self::Opened => ("opened", None, None),
        };
        ProgressForm { step, nodes, left_ms: left.map(milliseconds) }.serialize(serializer)
    }
}
