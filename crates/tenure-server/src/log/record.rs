//! What is noted of a call while it is served: the layers and calls that know it write it here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use axum::http::HeaderMap;

/// Whoever called before us may have named the request.
pub(crate) const REQUEST_ID: &str = "x-request-id";

/// Longer ids are not taken over.
const ID_MAX: usize = 64;

/// The most of a name that is kept: no lock has a longer one.
const NAME_MAX: usize = 1_024;

/// Tells requests of this instance from those of others.
static INSTANCE: LazyLock<u32> = LazyLock::new(|| {
    let mut bytes = [0; 4];
    // Without randomness its process has to do.
    getrandom::fill(&mut bytes).map_or_else(|_| std::process::id(), |()| u32::from_ne_bytes(bytes))
});

static COUNT: AtomicU64 = AtomicU64::new(0);

/// What is known of a call so far.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    id: Arc<str>,
    noted: Arc<Mutex<Noted>>,
}

/// What layers and calls add.
#[derive(Clone, Debug, Default)]
pub(super) struct Noted {
    pub(super) caller: Option<String>,
    /// The first lock it is about.
    pub(super) name: Option<String>,
    /// How many locks it is about.
    pub(super) names: usize,
}

impl Record {
    /// Of a request with these headers.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let sent = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(|id| is_id(id));
        sent.map_or_else(Self::default, |id| Self { id: id.into(), noted: Arc::default() })
    }

    /// Names the request, here and wherever it was before.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Notes who calls.
    pub(crate) fn caller(&self, name: &str) {
        self.lock().caller = Some(name.to_owned());
    }

    /// Notes a lock that the call is about.
    pub(crate) fn name(&self, name: &str) {
        let mut noted = self.lock();
        noted.names += 1;
        if noted.name.is_none() {
            noted.name = Some(name.chars().take(NAME_MAX).collect());
        }
    }

    pub(super) fn noted(&self) -> Noted {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Record {
    /// With an id of its own.
    fn default() -> Self {
        let id = format!("{:08x}-{}", *INSTANCE, COUNT.fetch_add(1, Ordering::Relaxed));
        Self { id: id.into(), noted: Arc::default() }
    }
}

/// Nothing that could be taken for something else in a log.
fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=ID_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}
