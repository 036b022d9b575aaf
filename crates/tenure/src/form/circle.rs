//! A deadlock, as data.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use tenure_core::ClientId;

use crate::circle::{Circle, CircleMember};

#[derive(Serialize, Deserialize)]
#[serde(rename = "Circle")]
struct CircleForm {
    members: Vec<MemberForm>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename = "CircleMember")]
struct MemberForm {
    label: Option<String>,
    #[serde(default)]
    client: Option<String>,
    holds: String,
    waits_for: String,
}

impl Serialize for Circle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = self.members.iter().map(MemberForm::of).collect();
        CircleForm { members }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Circle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let CircleForm { members } = CircleForm::deserialize(deserializer)?;
        let members = members.into_iter().map(MemberForm::member).collect::<Result<_, _>>();
        Ok(Self { members: members.map_err(D::Error::custom)? })
    }
}

impl Serialize for CircleMember {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        MemberForm::of(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CircleMember {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        MemberForm::deserialize(deserializer)?.member().map_err(D::Error::custom)
    }
}

impl MemberForm {
    fn of(CircleMember { label, client, holds, waits_for }: &CircleMember) -> Self {
        Self {
            label: super::text(label.as_ref()),
            client: super::text(client.as_ref()),
            holds: holds.to_string(),
            waits_for: waits_for.to_string(),
        }
    }

    fn member(self) -> Result<CircleMember, &'static str> {
        let read = |text: String| ClientId::parse(&text).ok_or("client: expected 16 hexadecimal digits");
        Ok(CircleMember {
            label: self.label.map(Into::into),
            client: self.client.map(read).transpose()?,
            holds: self.holds.into(),
            waits_for: self.waits_for.into(),
        })
    }
}
