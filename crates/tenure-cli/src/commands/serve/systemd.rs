//! What systemd is told, if it has started the service (`Type=notify`, `WatchdogSec=`). Without it
//! nothing is told.

use sd_notify::NotifyState;
use tenure_server::Service;

/// How many times the service tells that it serves within the time in which it must.
const TIMES: u32 = 3;

/// The watchdog is fed as long as the service really serves.
pub(super) fn watched(service: Service) -> Service {
    match sd_notify::watchdog_enabled() {
        Some(within) => service.watchdog(within / TIMES, || tell(&[NotifyState::Watchdog])),
        None => service,
    }
}

/// Calls are answered from now on.
pub(super) fn tell_ready(urls: &[String]) {
    tell(&[NotifyState::Ready, NotifyState::Status(&format!("listening on {}", urls.join(", ")))]);
}

pub(super) fn tell_reloading() {
    let Ok(now) = NotifyState::monotonic_usec_now() else { return };
    tell(&[NotifyState::Reloading, now]);
}

pub(super) fn tell_reloaded() {
    tell(&[NotifyState::Ready]);
}

pub(super) fn tell_stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("draining")]);
}

fn tell(state: &[NotifyState<'_>]) {
    // Whoever started us and does not listen any more does not need to know.
    let _ = sd_notify::notify(state);
}
