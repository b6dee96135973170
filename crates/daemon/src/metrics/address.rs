//! Where metrics may be served: on this machine alone.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// A loopback address, or the path of a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsAddress {
    /// `127.0.0.1:PORT`, `[::1]:PORT`, or another loopback address.
    Loopback(SocketAddr),
    /// The path of a Unix socket.
    Socket(PathBuf),
}

/// Why metrics cannot be served at an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Others than this machine could connect.
    #[error("'{0}' is no loopback address; write 127.0.0.1:PORT, [::1]:PORT, or the path of a socket")]
    NotLoopback(String),
    /// Neither an address with a port nor a path.
    #[error(
        "'{0}' is no address; write 127.0.0.1:PORT, [::1]:PORT, or the path of a socket (with a '/' in it)"
    )]
    Syntax(String),
}

impl FromStr for MetricsAddress {
    type Err = AddressError;

    /// What has a slash in it is a path. `localhost` is 127.0.0.1: a name is never looked up.
    fn from_str(text: &str) -> Result<MetricsAddress, AddressError> {
        if text.contains('/') {
            return Ok(MetricsAddress::Socket(PathBuf::from(text)));
        }
        let address = match text.strip_prefix("localhost:") {
            Some(port) => port.parse().ok().map(|port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)),
            None => text.parse::<SocketAddr>().ok(),
        };
        let address = address.ok_or_else(|| AddressError::Syntax(text.to_owned()))?;
        let loopback = match address.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            // An IPv4 address in IPv6's clothes is not accepted: it binds in IPv4.
            IpAddr::V6(ip) => ip.is_loopback(),
        };
        if loopback {
            Ok(MetricsAddress::Loopback(address))
        } else {
            Err(AddressError::NotLoopback(text.to_owned()))
        }
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricsAddress::Loopback(address) => write!(f, "http://{address}/metrics"),
            MetricsAddress::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_and_paths() {
        let read = |text: &str| text.parse::<MetricsAddress>().map(|a| a.to_string());
        assert_eq!(read("127.0.0.1:9464").unwrap(), "http://127.0.0.1:9464/metrics");
        assert_eq!(read("127.8.0.1:1").unwrap(), "http://127.8.0.1:1/metrics");
        assert_eq!(read("[::1]:9464").unwrap(), "http://[::1]:9464/metrics");
        assert_eq!(read("localhost:9464").unwrap(), "http://127.0.0.1:9464/metrics");
        assert_eq!(read("/run/foretell/metrics.sock").unwrap(), "/run/foretell/metrics.sock");
        assert_eq!(read("./m").unwrap(), "./m");
    }

    #[test]
    fn what_others_could_reach_is_refused_in_one_line() {
        for text in ["0.0.0.0:9464", "[::]:9464", "192.168.1.2:80", "[::ffff:127.0.0.1]:80", "10.0.0.1:1"] {
            let error = text.parse::<MetricsAddress>().unwrap_err();
            assert_eq!(error, AddressError::NotLoopback(text.into()));
            assert!(!error.to_string().contains('\n'));
        }
        for text in ["", ":9464", "9464", "127.0.0.1", "example.org:9464", "localhost:x", "127.0.0.1:70000"] {
            assert_eq!(text.parse::<MetricsAddress>(), Err(AddressError::Syntax(text.into())));
        }
    }
}
