//! A caller as the list has it: a line of JSON.
//!
//! ```json
//! {"name":"billing","sha256":"5f2e...","may":["read","lock"],"prefixes":["billing/"],"until":"2027-03-31T00:00:00Z"}
//! ```

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::rights::Rights;
use super::token::TokenHash;

/// Names are for logs and messages.
const NAME_MAX: usize = 64;

/// What no line may be called: it is how those are called who are in no list.
pub(super) const NOBODY: &str = "anonymous";

/// Somebody who may call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Principal {
    /// How it is called. Several lines may have the same name, while a token is exchanged.
    pub name: String,
    /// What it may do.
    pub rights: Rights,
    /// When that ends.
    pub until: Option<Timestamp>,
    pub(super) proof: Option<Proof>,
}

/// What shows that somebody is who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    Token(TokenHash),
    /// A name in a certificate.
    Certificate(String),
}

/// Why somebody cannot be put down as a caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrincipalError {
    /// The line has another form.
    #[error("{0}")]
    Form(String),
    /// It cannot be called so.
    #[error(
        "a caller's name must have 1 to {NAME_MAX} letters, digits, or any of . _ @ / -, and must not be \
         {NOBODY:?}"
    )]
    Name,
    /// It may do nothing.
    #[error("`may` is empty; expected any of read, lock, force, metrics")]
    Idle,
    /// The list of prefixes is there, and empty.
    #[error("`prefixes` is empty; omit it for all names")]
    NoPrefix,
    /// It is recognised by nothing, or by two things.
    #[error("expected either `sha256` or `certificate`")]
    Proof,
    /// The hash is none.
    #[error(
        "`sha256` is not the SHA-256 of a token: expected 64 hexadecimal digits, as printed by `tenure \
         token new`"
    )]
    Hash,
    /// The end is no time.
    #[error("`until` is not a time; expected one such as 2027-03-31T00:00:00Z")]
    Until,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
    may: Vec<super::Verb>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prefixes: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<String>,
}

impl Principal {
    /// Whoever has this token.
    ///
    /// # Errors
    /// What is wrong with the name or the rights.
    pub fn with_token(
        name: &str,
        token: TokenHash,
        rights: Rights,
        until: Option<Timestamp>,
    ) -> Result<Self, PrincipalError> {
        Self::new(name, Proof::Token(token), rights, until)
    }

    /// Whoever shows a certificate of this name.
    ///
    /// # Errors
    /// What is wrong with the name or the rights.
    pub fn with_certificate(
        name: &str,
        certificate: &str,
        rights: Rights,
        until: Option<Timestamp>,
    ) -> Result<Self, PrincipalError> {
        Self::new(name, Proof::Certificate(certificate.to_owned()), rights, until)
    }

    /// Somebody who is in no list.
    pub(super) fn unlisted(name: String, rights: Rights) -> Self {
        Self { name, rights, until: None, proof: None }
    }

    fn new(
        name: &str,
        proof: Proof,
        rights: Rights,
        until: Option<Timestamp>,
    ) -> Result<Self, PrincipalError> {
        let is_usual = |letter: char| letter.is_ascii_alphanumeric() || "._@/-".contains(letter);
        if !(1..=NAME_MAX).contains(&name.len()) || !name.chars().all(is_usual) || name == NOBODY {
            return Err(PrincipalError::Name);
        }
        if rights.may.is_empty() {
            return Err(PrincipalError::Idle);
        }
        Ok(Self { name: name.to_owned(), rights, until, proof: Some(proof) })
    }

    /// Reads a line. What it says is not repeated: a token may have been written into it by
    /// mistake.
    pub(super) fn parse(line: &str) -> Result<Self, PrincipalError> {
        let Line { name, sha256, certificate, may, prefixes, until } =
            serde_json::from_str(line).map_err(|error| PrincipalError::Form(error.to_string()))?;
        let proof = match (sha256, certificate) {
            (Some(hash), None) => Proof::Token(TokenHash::parse(&hash).ok_or(PrincipalError::Hash)?),
            (None, Some(name)) if !name.is_empty() => Proof::Certificate(name),
            _ => return Err(PrincipalError::Proof),
        };
        let prefixes = match prefixes {
            Some(prefixes) if prefixes.is_empty() => return Err(PrincipalError::NoPrefix),
            prefixes => prefixes.unwrap_or_default(),
        };
        let until = until.map(|until| until.parse().map_err(|_| PrincipalError::Until)).transpose()?;
        Self::new(&name, proof, Rights { may, prefixes }, until)
    }

    /// The line for the list.
    #[must_use]
    pub fn to_line(&self) -> String {
        let (sha256, certificate) = match &self.proof {
            Some(Proof::Token(hash)) => (Some(hash.to_string()), None),
            Some(Proof::Certificate(name)) => (None, Some(name.clone())),
            None => (None, None),
        };
        let Rights { may, prefixes } = self.rights.clone();
        let line = Line {
            name: self.name.clone(),
            sha256,
            certificate,
            may,
            prefixes: Some(prefixes).filter(|prefixes| !prefixes.is_empty()),
            until: self.until.map(|until| until.to_string()),
        };
        serde_json::to_string(&line).expect("it has nothing but texts")
    }

    /// The name of the certificate that it is recognised by, if it is by one.
    #[must_use]
    pub fn certificate(&self) -> Option<&str> {
        match &self.proof {
            Some(Proof::Certificate(name)) => Some(name),
            _ => None,
        }
    }

    pub(super) fn token(&self) -> Option<&TokenHash> {
        match &self.proof {
            Some(Proof::Token(hash)) => Some(hash),
            _ => None,
        }
    }

    /// Whether its time is over.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for line in [
            format!(r#"{{"name":"a","sha256":"{}","may":["read","lock"]}}"#, "0f".repeat(32)),
            r#"{"name":"web-1@x","certificate":"web-1.example","may":["force","metrics"],"prefixes":["a/","\""],"until":"2027-03-31T00:00:00Z"}"#.to_owned(),
        ] {
            assert_eq!(Principal::parse(&line).unwrap().to_line(), line);
        }
    }

    #[test]
    fn a_line_of_another_form_is_refused_and_not_repeated() {
        let hash = "0f".repeat(32);
        let line = |fields: &str| Principal::parse(&format!(r#"{{"name":"a","sha256":"{hash}",{fields}}}"#));
        for (fields, part) in [
            (r#""may":[]"#, "is empty"),
            (r#""may":["lok"]"#, "unknown variant `lok`"),
            (r#""may":["lock"],"prefix":"a/""#, "unknown field `prefix`"),
            (r#""may":["lock"],"prefixes":[]"#, "omit it"),
            (r#""may":["lock"],"until":"soon""#, "not a time"),
            (r#""may":["lock"],"certificate":"x""#, "either"),
        ] {
            let error = line(fields).unwrap_err().to_string();
            assert!(error.contains(part), "{fields}: {error}");
        }
        let secret = super::super::CallerToken::generate().unwrap().reveal().to_owned();
        let error = Principal::parse(&format!(r#"{{"name":"a","sha256":"{secret}","may":["lock"]}}"#));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("64 hexadecimal") && !error.contains(&secret), "{error}");
        for name in ["", "anonymous", "uid:0", "a b", "a\\n", &"n".repeat(65)] {
            let line = format!(r#"{{"name":"{name}","sha256":"{hash}","may":["lock"]}}"#);
            assert_eq!(Principal::parse(&line).unwrap_err(), PrincipalError::Name, "{name}");
        }
    }
}
