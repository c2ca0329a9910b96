//! A network of a test's own: the test binary runs one of its tests again inside fresh network and
//! mount namespaces, where any address may be dialled because nothing leaves, and every packet is seen.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use super::rig;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::net::{eth, recv, socket_with, AddressFamily, RecvFlags, SocketFlags, SocketType};

/// Set in the run inside.
const INSIDE: &str = "KORVUN_TEST_NETNS";

/// Where the test stands.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// In the namespace: do the work.
    Inside,
    /// Outside: the work was done, and went well, in a child.
    Done,
    /// Outside, and namespaces cannot be had; said on stdout.
    Skipped,
}

/// Runs the test of that full name again in a namespace, with these variables set. A failure in
/// there fails here. Where namespaces cannot be had the test is skipped with a sentence, unless
/// `KORVUN_REQUIRE` names `netns`.
pub fn enter(test: &str, environment: &[(&str, &str)]) -> Place {
    if std::env::var_os(INSIDE).is_some() {
        return Place::Inside;
    }
    let ways: [&[&str]; 2] = [
        &["--net", "--mount"],
        &["--map-root-user", "--net", "--mount"],
    ];
    let possible = |way: &&&[&str]| {
        let tried = Command::new("unshare")
            .args(**way)
            .args(["ip", "link"])
            .output();
        tried.is_ok_and(|output| output.status.success())
    };
    let Some(way) = ways.iter().find(possible) else {
        rig::missing(
            "netns",
            "no network namespace can be had (unshare and ip are needed)",
        );
        return Place::Skipped;
    };
    let output = Command::new("unshare")
        .args(*way)
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .envs(environment.iter().copied())
        .output()
        .expect("unshare runs");
    let told = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "inside the namespace:\n{told}\n{said}"
    );
    assert!(
        told.contains("1 passed"),
        "the name of the test is not {test}:\n{told}"
    );
    Place::Done
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}

/// Brings loopback up and gives this namespace's only link these addresses.
pub fn addresses(addresses: &[&str]) {
    run("ip", &["link", "set", "lo", "up"]);
    for address in addresses {
        let width = if address.contains(':') { 128 } else { 32 };
        let address = format!("{address}/{width}");
        let no_detection: &[&str] = if width == 128 { &["nodad"] } else { &[] };
        run(
            "ip",
            &[&["addr", "add", &address, "dev", "lo"], no_detection].concat(),
        );
    }
}

/// Lays a hosts file of its own over the machine's, in this mount namespace only.
pub fn hosts(folder: &Path, lines: &str) {
    let file = folder.join("hosts");
    std::fs::write(&file, lines).expect("a file");
    run("mount", &["--make-rprivate", "/"]);
    run(
        "mount",
        &["--bind", file.to_str().expect("a path"), "/etc/hosts"],
    );
}

/// Sees the destination of every packet on every link of the namespace.
pub struct Capture {
    seen: Arc<Mutex<HashSet<IpAddr>>>,
}

impl Capture {
    /// Starts it; it ends with the process.
    pub fn start() -> Capture {
        let socket = socket_with(
            AddressFamily::PACKET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            Some(eth::ALL),
        )
        .expect("a packet socket");
        let seen = Arc::new(Mutex::new(HashSet::new()));
        let theirs = Arc::clone(&seen);
        std::thread::spawn(move || watch(&socket, &theirs));
        Capture { seen }
    }

    /// Every destination so far. Sends a packet to `marker`, an address that nobody else dials,
    /// and waits until that has been seen, so that all earlier ones have been.
    pub fn destinations(&self, marker: Ipv4Addr) -> HashSet<IpAddr> {
        let marker = IpAddr::V4(marker);
        // Refused or not: its SYN is on the link.
        let _ = TcpStream::connect_timeout(&(marker, 9).into(), Duration::from_secs(5));
        let began = Instant::now();
        loop {
            let seen = self.seen.lock().unwrap().clone();
            if seen.contains(&marker) {
                return seen;
            }
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "the capture sees nothing"
            );
            std::thread::yield_now();
        }
    }
}

fn watch(socket: &OwnedFd, seen: &Mutex<HashSet<IpAddr>>) {
    let mut packet = [0_u8; 64];
    while let Ok((length, _)) = recv(socket, &mut packet[..], RecvFlags::empty()) {
        if let Some(address) = destination(&packet[..length]) {
            seen.lock().unwrap().insert(address);
        }
    }
}

/// The destination in an IP header (RFC 791, 3.1; RFC 8200, 3).
fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(16..20)?).ok()?).into()),
        6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(24..40)?).ok()?).into()),
        _ => None,
    }
}
