//! Who gets in: what `[serve]` says about it, checked before anything listens.
//!
//! Nothing is open by accident. Whatever other machines can reach needs a list of callers, and TLS
//! by itself or by a proxy before it; without them the service does not start.

use tenure::config::{Listen, Serve, Source, Sourced};

use crate::caller::{Callers, CallersError};
use crate::listen::{CONNECTIONS_MAX, Listeners, Socket, SocketError, make_room};
use crate::tls::{Tls, TlsError, TlsFiles};

/// What settings mean, with the files that they name.
#[derive(Clone, Debug)]
pub struct Door {
    settings: Serve,
    pub(crate) callers: Callers,
    pub(crate) tls: Option<Tls>,
}

/// Why it stays closed, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorError {
    /// Everybody could lock and release.
    #[error(
        "{by}: other machines can reach {listen}, and anyone could use it; create a list of callers \
         (`tenure token new --file callers`) and pass it with --callers, or listen on 127.0.0.1"
    )]
    #[non_exhaustive]
    Anonymous {
        /// Where it was to listen.
        listen: Listen,
        /// What says so.
        by: Source,
    },
    /// Tokens could be read on their way.
    #[error(
        "{by}: other machines can reach {listen}, and tokens would be sent unencrypted; use \
         --tls-certificate and --tls-key, or --behind-tls-proxy if a proxy terminates TLS, or listen on \
         127.0.0.1"
    )]
    #[non_exhaustive]
    Plain {
        /// Where it was to listen.
        listen: Listen,
        /// What says so.
        by: Source,
    },
    /// A setting needs another one.
    #[error("{by}: {setting} needs {needed}")]
    #[non_exhaustive]
    Half {
        /// The one that is there.
        setting: &'static str,
        /// The one that is not.
        needed: &'static str,
        /// What says so.
        by: Source,
    },
    /// Each connection is an open file.
    #[error(
        "{by}: connections_max is {wanted}, but the system allows this process {room}; raise its limit on \
         open files (`ulimit -Hn`, or LimitNOFILE= under systemd), or lower connections_max"
    )]
    #[non_exhaustive]
    Descriptors {
        /// How many connections there were to be.
        wanted: usize,
        /// For how many there is room.
        room: usize,
        /// What says so.
        by: Source,
    },
    /// The list of callers cannot be used.
    #[error(transparent)]
    Callers(#[from] CallersError),
    /// TLS cannot be used.
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    /// Nothing can listen there.
    #[error(transparent)]
    Socket(#[from] SocketError),
}

impl Door {
    /// Makes sure that the settings fit together. No file is read.
    ///
    /// # Errors
    /// What is wrong, where it comes from, and what to do.
    pub fn check(settings: &Serve) -> Result<(), DoorError> {
        let Serve { callers, tls_certificate, tls_key, client_ca, .. } = settings;
        let half = |setting, needed, source: &Source| DoorError::Half { setting, needed, by: source.clone() };
        match (&tls_certificate.value, &tls_key.value) {
            (Some(_), None) => return Err(half("tls_certificate", "tls_key", &tls_certificate.source)),
            (None, Some(_)) => return Err(half("tls_key", "tls_certificate", &tls_key.source)),
            _ => {}
        }
        if client_ca.value.is_some() && tls_certificate.value.is_none() {
            return Err(half("client_ca", "tls_certificate and tls_key", &client_ca.source));
        }
        if client_ca.value.is_some() && callers.value.is_none() {
            let list = "callers: a file that says what each certificate may do";
            return Err(half("client_ca", list, &client_ca.source));
        }
        let open = settings.listen.value.iter().find(|listen| listen.is_open_to_others());
        let Some(listen) = open.cloned() else { return Ok(()) };
        let by = settings.listen.source.clone();
        if callers.value.is_none() {
            return Err(DoorError::Anonymous { listen, by });
        }
        if tls_certificate.value.is_none() && !settings.behind_tls_proxy.value {
            return Err(DoorError::Plain { listen, by });
        }
        Ok(())
    }

    /// Checks the settings, and reads the files that they name.
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub fn of(settings: &Serve) -> Result<Self, DoorError> {
        Self::check(settings)?;
        let callers = settings.callers.value.as_deref().map(Callers::read).transpose()?.unwrap_or_default();
        let tls = match (&settings.tls_certificate.value, &settings.tls_key.value) {
            (Some(certificate), Some(key)) => {
                let client_ca = settings.client_ca.value.clone();
                let files = TlsFiles { certificate: certificate.clone(), key: key.clone(), client_ca };
                Some(Tls::read(files)?)
            }
            _ => None,
        };
        Ok(Self { settings: settings.clone(), callers, tls })
    }

    /// Reads the files again. A file that cannot be used changes nothing: what was read from it
    /// before stays.
    #[must_use]
    pub fn reload(&self) -> Vec<DoorError> {
        let callers = self.settings.callers.value.as_deref().map(|path| self.callers.reload(path));
        let tls = self.tls.as_ref().map(Tls::reload);
        let callers = callers.and_then(Result::err).map(DoorError::from);
        callers.into_iter().chain(tls.and_then(Result::err).map(DoorError::from)).collect()
    }

    /// Listens everywhere it should.
    ///
    /// # Errors
    /// Where that is not possible, and why.
    pub async fn listen(&self) -> Result<Listeners, DoorError> {
        let (room, mut sockets) = (self.room()?, vec![]);
        for listen in &self.settings.listen.value {
            sockets.push(Socket::bind(listen, self.settings.socket_mode.value).await?);
        }
        Ok(Listeners::new(sockets, self.tls.clone(), room))
    }

    /// Room for as many connections as there may be. Fewer are enough if nobody asked for more.
    fn room(&self) -> Result<usize, DoorError> {
        let Sourced { value, source } = &self.settings.connections_max;
        let room = make_room(value.unwrap_or(CONNECTIONS_MAX));
        match *value {
            Some(wanted) if wanted > room => Err(DoorError::Descriptors { wanted, room, by: source.clone() }),
            _ => Ok(room),
        }
    }

    /// Those who may call.
    #[must_use]
    pub const fn callers(&self) -> &Callers {
        &self.callers
    }

    /// When its certificate ends, if it has one.
    #[must_use]
    pub fn certificate_until(&self) -> Option<jiff::Timestamp> {
        self.tls.as_ref().map(Tls::until)
    }

    pub(crate) const fn settings(&self) -> &Serve {
        &self.settings
    }
}
