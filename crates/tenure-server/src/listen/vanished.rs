//! Clients that vanish without a word: with their machine, or with the network in between.
//!
//! TCP would wait for a quarter of an hour, or for ever if nothing is to be sent. Until it is
//! noticed a waiter keeps its place in line, and a held connection its lock.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io;
use rustix::net::sockopt;

/// It is noticed within this time. Long enough for a network that recovers, short against what
/// people wait for.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

/// When nothing is said for so long, the other side is asked whether it is there,
const ASKED_AFTER: Duration = Duration::from_secs(10);

/// and then so often.
const ASKED_EVERY: Duration = Duration::from_secs(5);

/// Lets the kernel notice it. One that cannot does without.
pub(super) fn notice(stream: impl AsFd) -> io::Result<()> {
    let stream = stream.as_fd();
    sockopt::set_tcp_keepidle(stream, ASKED_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, ASKED_EVERY)?;
    let times = (NOTICED_WITHIN - ASKED_AFTER).as_secs() / ASKED_EVERY.as_secs();
    sockopt::set_tcp_keepcnt(stream, u32::try_from(times).unwrap_or(u32::MAX))?;
    sockopt::set_socket_keepalive(stream, true)?;
    // What was sent and is not acknowledged.
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(stream, u32::try_from(NOTICED_WITHIN.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_is_told_how_long_to_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        notice(&stream).unwrap();
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 30_000);
        assert_eq!(
            (sockopt::tcp_keepidle(&stream).unwrap(), sockopt::tcp_keepcnt(&stream).unwrap()),
            (ASKED_AFTER, 4)
        );
        assert!(sockopt::socket_keepalive(&stream).unwrap());
    }
}
