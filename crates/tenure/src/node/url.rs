//! Node URLs of every kind, and what can be wrong with them.

use super::Node;

/// Why a node URL is invalid. It never contains a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It is not a URL.
    #[error("invalid node URL ({reason}); expected redis://host:6379 or sqlite:/path/to/file")]
    NotAUrl {
        /// Why.
        reason: String,
    },
    /// Its scheme is unknown.
    #[error("{scheme}:// is not supported; use redis://, rediss://, redis+unix:// or sqlite:PATH")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// It lacks a host or a path.
    #[error("the node URL has no {missing}; expected {example}")]
    Missing {
        /// What is missing.
        missing: &'static str,
        /// How it should look.
        example: &'static str,
    },
    /// The database is not a number.
    #[error("{database:?} is not a database; expected a number, as in redis://host:6379/0")]
    Database {
        /// What was given.
        database: String,
    },
    /// A parameter after the `?` is unknown, or does not fit the scheme.
    #[error(
        "{parameter:?} is not a parameter of {scheme}:// URLs; expected db, user, password_file, and with \
         rediss:// ca, cert and key"
    )]
    Parameter {
        /// Its name.
        parameter: String,
        /// The scheme of the URL.
        scheme: String,
    },
    /// `cert` without `key`, or the other way round.
    #[error("cert and key belong together: use both or neither")]
    HalfCertificate,
    /// TLS is not compiled in.
    #[error("rediss:// needs the feature `tls` of the crate tenure")]
    NoTls,
    /// This kind of node is not compiled in.
    #[error("nodes of this kind need the feature `{feature}` of the crate tenure")]
    #[non_exhaustive]
    NotCompiledIn {
        /// The feature.
        feature: &'static str,
    },
    /// There is no folder for the default store.
    #[error(
        "no folder for the embedded store: none of XDG_STATE_HOME, HOME and STATE_DIRECTORY is set, and \
         this user has no home in /etc/passwd. Set one of them, or use sqlite:PATH"
    )]
    NoHome,
}

impl Node {
    /// Parses the URL of a node of any kind: `redis://...`, `rediss://...`, `redis+unix://...`,
    /// `sqlite:PATH`.
    ///
    /// # Errors
    /// [`UrlError`] says what is wrong with it. It never contains a password.
    ///
    /// # Examples
    /// ```
    /// let node = tenure::Node::parse("sqlite:/var/lib/app/locks.db");
    /// # #[cfg(feature = "embedded")]
    /// assert_eq!(node?.address(), "sqlite:/var/lib/app/locks.db");
    /// # Ok::<(), tenure::UrlError>(())
    /// ```
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        if url.starts_with("sqlite:") {
            #[cfg(feature = "embedded")]
            return super::SqliteNode::parse(url).map(Into::into);
            #[cfg(not(feature = "embedded"))]
            return Err(UrlError::NotCompiledIn { feature: "embedded" });
        }
        #[cfg(feature = "redis")]
        return super::RedisNode::parse(url).map(Into::into);
        #[cfg(not(feature = "redis"))]
        return Err(UrlError::scheme_of(url));
    }
}

impl UrlError {
    /// Nothing of the URL is repeated but what stands before the colon.
    #[cfg(any(feature = "embedded", not(feature = "redis")))]
    pub(super) fn scheme_of(url: &str) -> Self {
        match url.split_once(':') {
            Some((scheme, _)) if cfg!(not(feature = "redis")) && scheme.starts_with("redis") => {
                Self::NotCompiledIn { feature: "redis" }
            }
            Some((scheme, _)) => Self::Scheme { scheme: scheme.to_owned() },
            None => Self::NotAUrl { reason: "relative URL without a base".to_owned() },
        }
    }
}
