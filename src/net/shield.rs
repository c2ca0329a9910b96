//! The shield in action: looks names up, drops the addresses that the policy refuses, and dials only
//! what is left, by address. Runs on the thread of the request. Never lets the client library dial.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{ConnectionDetails, Connector, LazyBuffers, NextTimeout};

use super::call;
use super::error::HttpError;
use super::line::{other, Line, Socket};
use super::names::LookUps;
use super::tls::Tls;
use crate::base::clock::{Clock, UnixMs};
use crate::base::sync::lock;
use crate::domain::address::{literal, Shield};

/// How often one name with mixed addresses is logged (contract 9, "Gate").
const MIXED_LOGGED_EVERY: Duration = Duration::from_secs(3600);
/// Names remembered as logged: far more than a configuration has.
const MIXED_NAMES_MOST: usize = 256;
/// Addresses tried of one name; ureq's own room for them.
const CANDIDATES_MOST: usize = 16;
/// The least time for one address when several share what is left.
const DIAL_LEAST: Duration = Duration::from_millis(100);

/// The resolver and the connector of one policy.
#[derive(Clone, Debug)]
pub(super) struct Shielded(Arc<Inner>);

struct Inner {
    policy: Shield,
    look_ups: Arc<LookUps>,
    tls: Tls,
    clock: Arc<dyn Clock>,
    mixed: Mutex<HashMap<String, UnixMs>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.policy)
    }
}

impl Shielded {
    pub(super) fn new(
        policy: Shield,
        look_ups: Arc<LookUps>,
        tls: Tls,
        clock: Arc<dyn Clock>,
    ) -> Shielded {
        Shielded(Arc::new(Inner {
            policy,
            look_ups,
            tls,
            clock,
            mixed: Mutex::new(HashMap::new()),
        }))
    }

    /// The addresses of `host` that may be dialled.
    ///
    /// # Errors
    /// `Shield` where none is left; `Connect` where there is none at all.
    fn allowed(&self, host: &str) -> Result<Vec<IpAddr>, HttpError> {
        let candidates = match literal(host) {
            Some(address) => vec![address],
            None => {
                let until = call::with(|call| call.connected_by).unwrap_or_else(Instant::now);
                self.0.look_ups.find(host, until, call::given_up)?
            }
        };
        let mut refused = None;
        let mut allowed = Vec::new();
        for address in candidates.into_iter().take(CANDIDATES_MOST) {
            match self.0.policy.refuses(address) {
                Some(why) => refused = Some((address, why)),
                None => allowed.push(address),
            }
        }
        match refused {
            Some((address, why)) if allowed.is_empty() => Err(HttpError::Shield(format!(
                "private_network_shield refuses {host}: {address} is {why}; nothing was sent"
            ))),
            None if allowed.is_empty() => Err(HttpError::Connect(format!(
                "the name {host} has no address"
            ))),
            Some(_) => {
                self.log_mixed(host);
                Ok(allowed)
            }
            None => Ok(allowed),
        }
    }

    fn log_mixed(&self, host: &str) {
        if self.first_this_hour(host) {
            log::warn!(
                host, rule = "private_network_shield";
                "the addresses of a name are mixed; those refused are never dialled"
            );
        }
    }

    /// Whether `host` was not logged within the hour; it is from now on.
    fn first_this_hour(&self, host: &str) -> bool {
        let now = self.0.clock.unix();
        let mut mixed = lock(&self.0.mixed);
        mixed.retain(|_, at| now.since(*at) < MIXED_LOGGED_EVERY);
        if mixed.contains_key(host) || mixed.len() >= MIXED_NAMES_MOST {
            return false;
        }
        mixed.insert(host.to_owned(), now);
        true
    }
}

impl Resolver for Shielded {
    /// Called for every request, also for one that a pooled connection serves.
    fn resolve(
        &self,
        uri: &Uri,
        _: &Config,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().ok_or(ureq::Error::HostNotFound)?;
        let port = uri
            .port_u16()
            .unwrap_or(if uri.scheme_str() == Some("https") {
                443
            } else {
                80
            });
        let mut found = self.empty();
        for address in self.allowed(host).map_err(other)? {
            found.push(SocketAddr::new(address, port));
        }
        Ok(found)
    }
}

impl Connector<()> for Shielded {
    type Out = Line;

    fn connect(
        &self,
        details: &ConnectionDetails,
        _: Option<()>,
    ) -> Result<Option<Line>, ureq::Error> {
        let until = call::with(|call| {
            call.dialled = true;
            call.connected_by
        })
        .unwrap_or_else(Instant::now);
        let stream = self.dial(&details.addrs, until).map_err(other)?;
        let serving = call::tie(0, &stream);
        if call::given_up() {
            return Err(other(HttpError::Cancelled));
        }
        let mut socket = Socket { stream, until };
        let tls = if details.needs_tls() {
            let host = details.uri.host().unwrap_or_default();
            Some(self.0.tls.open(host, &mut socket).map_err(other)?)
        } else {
            None
        };
        let buffers = LazyBuffers::new(
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        Ok(Some(Line::new(socket, tls, buffers, serving)))
    }
}

impl Shielded {
    /// A connection of its own to a host, for what is not HTTP; the call of this thread gives it up.
    ///
    /// Blocks: until `until`.
    ///
    /// # Errors
    /// `Shield` where no address may be dialled, `Connect` where none answers, `Cancelled`.
    pub(super) fn connect(
        &self,
        host: &str,
        port: u16,
        until: Instant,
    ) -> Result<Arc<TcpStream>, HttpError> {
        let allowed = self.allowed(host)?.into_iter();
        let candidates: Vec<_> = allowed.map(|ip| SocketAddr::new(ip, port)).collect();
        let stream = self.dial(&candidates, until)?;
        if call::given_up() {
            return Err(HttpError::Cancelled);
        }
        Ok(stream)
    }

    /// Dials the candidates one after the other; each is looked at again, and so is the peer that
    /// the connection really has.
    fn dial(&self, candidates: &[SocketAddr], until: Instant) -> Result<Arc<TcpStream>, HttpError> {
        let mut last = HttpError::Connect("there is no address to dial".into());
        for (at, address) in candidates.iter().enumerate() {
            if let Some(why) = self.0.policy.refuses(address.ip()) {
                last = refused(*address, &why);
                continue;
            }
            if call::given_up() {
                return Err(HttpError::Cancelled);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(HttpError::Connect("no connection in time".into()));
            }
            // What is left is shared, so that a dead first address leaves time for the next.
            let others = u32::try_from(candidates.len() - at).unwrap_or(u32::MAX);
            let share = (left / others).max(DIAL_LEAST).min(left);
            match TcpStream::connect_timeout(address, share) {
                Ok(stream) => return self.checked(stream),
                Err(error) => last = HttpError::Connect(told(*address, &error)),
            }
        }
        Err(last)
    }

    fn checked(&self, stream: TcpStream) -> Result<Arc<TcpStream>, HttpError> {
        let peer = stream
            .peer_addr()
            .map_err(|error| HttpError::Connect(error.to_string()))?;
        if let Some(why) = self.0.policy.refuses(peer.ip()) {
            return Err(refused(peer, &why));
        }
        // Without it a small request waits for the acknowledgement of its own head.
        let _ = stream.set_nodelay(true);
        Ok(Arc::new(stream))
    }
}

fn refused(address: SocketAddr, why: &dyn fmt::Display) -> HttpError {
    HttpError::Shield(format!(
        "private_network_shield refuses {address}: it is {why}; nothing was sent"
    ))
}

fn told(address: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("{address}: connection refused: is the server running?")
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            format!("{address}: no answer to the connection request")
        }
        _ => format!("{address}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::names::SystemNames;

    /// Stands where it is set.
    #[derive(Debug)]
    struct Hands(Mutex<UnixMs>);

    impl Clock for Hands {
        fn unix(&self) -> UnixMs {
            *lock(&self.0)
        }

        fn now(&self) -> Instant {
            Instant::now()
        }
    }

    #[test]
    fn a_mixed_name_is_logged_once_an_hour() {
        let clock = Arc::new(Hands(Mutex::new(UnixMs(0))));
        let look_ups = LookUps::new(Arc::new(SystemNames), 1);
        let shielded = Shielded::new(Shield::Private, look_ups, Tls::new(None), clock.clone());
        for (minute, name, logged) in [
            (0, "a", true),
            (0, "a", false),
            (1, "b", true),
            (59, "a", false),
            (60, "a", true),
            (60, "b", false),
            (61, "b", true),
        ] {
            *lock(&clock.0) = UnixMs(minute * 60_000);
            assert_eq!(shielded.first_this_hour(name), logged, "{minute} {name}");
        }
        for number in 0..1000 {
            let _ = shielded.first_this_hour(&number.to_string());
        }
        assert!(lock(&shielded.0.mixed).len() <= MIXED_NAMES_MOST);
    }
}
