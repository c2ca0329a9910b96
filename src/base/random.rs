//! Random numbers from the operating system, by way of ring.

use ring::rand::{SecureRandom, SystemRandom};

/// Random bytes, fit for tokens and ids.
///
/// # Panics
/// Never on Linux with a working `getrandom`; a machine without random numbers cannot do TLS either.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut out = [0_u8; N];
    #[expect(
        clippy::expect_used,
        reason = "without random numbers nothing here is safe to go on"
    )]
    SystemRandom::new()
        .fill(&mut out)
        .expect("the operating system gives random bytes");
    out
}

/// A number uniform over the whole range.
#[must_use]
pub fn number() -> u32 {
    u32::from_le_bytes(bytes())
}

/// `N` random bytes in lower-case hexadecimal.
#[must_use]
pub fn hex<const N: usize>() -> String {
    bytes::<N>()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
