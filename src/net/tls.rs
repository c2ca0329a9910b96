//! Trust: the roots, read at first use, and the one TLS client that every outbound connection shares.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore};

use super::error::{HttpError, TlsTrouble};

/// Where distributions keep the bundle of trusted authorities: Debian and its kin, Fedora and its
/// kin, openSUSE, and what others link to.
const SYSTEM_BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Bytes of a bundle: twenty times what distributions ship.
const BUNDLE_BYTES_MOST: u64 = 4 * 1024 * 1024;

/// The one TLS client. Clones share roots and sessions.
#[derive(Clone, Debug)]
pub struct Tls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    cert_file: Option<PathBuf>,
    config: OnceLock<Arc<ClientConfig>>,
}

impl Tls {
    /// A client that trusts the authorities in `cert_file` (the value of `SSL_CERT_FILE`), without
    /// one those of the system. Reads nothing yet.
    #[must_use]
    pub fn new(cert_file: Option<PathBuf>) -> Tls {
        Tls(Arc::new(Inner {
            cert_file,
            config: OnceLock::new(),
        }))
    }

    /// The client's configuration; reads the roots at first use, and again until that succeeds.
    ///
    /// # Errors
    /// `Tls(NoRoots)` naming the files that were looked for.
    pub fn config(&self) -> Result<Arc<ClientConfig>, HttpError> {
        if let Some(config) = self.0.config.get() {
            return Ok(Arc::clone(config));
        }
        let built = build(self.0.cert_file.as_deref())
            .map_err(|detail| HttpError::Tls(TlsTrouble::NoRoots, detail))?;
        // Two threads may build at once; one result stays.
        Ok(Arc::clone(self.0.config.get_or_init(|| built)))
    }

    /// Opens a connection over `socket` to a server that must prove to be `host`.
    ///
    /// Blocks: as long as reads and writes of `socket` do.
    ///
    /// # Errors
    /// `Tls` with its trouble; `Connect` where the socket failed or ran out of time.
    pub(super) fn open<S: Read + io::Write>(
        &self,
        host: &str,
        socket: &mut S,
    ) -> Result<ClientConnection, HttpError> {
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let name = ServerName::try_from(host).map_err(|_| {
            HttpError::Request("the host is no name that a certificate can have".into())
        })?;
        let mut connection =
            ClientConnection::new(self.config()?, name).map_err(|error| trouble(&error))?;
        while connection.is_handshaking() {
            connection
                .complete_io(socket)
                .map_err(|error| broken(&error))?;
        }
        Ok(connection)
    }
}

/// What an I/O error on a TLS connection means.
pub(super) fn broken(error: &io::Error) -> HttpError {
    if let Some(error) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    {
        return trouble(error);
    }
    match error.kind() {
        io::ErrorKind::TimedOut => HttpError::Connect("the tls handshake took too long".into()),
        io::ErrorKind::UnexpectedEof => {
            HttpError::Connect("the server closed the connection during the tls handshake".into())
        }
        _ => HttpError::Connect(error.to_string()),
    }
}

/// What rustls found.
pub(super) fn trouble(error: &rustls::Error) -> HttpError {
    let (trouble, cure) = match error {
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => (
            TlsTrouble::WrongName,
            "the URL must name the host as the certificate does",
        ),
        rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => (
            TlsTrouble::Expired,
            "renew it, or set this machine's clock right",
        ),
        // A bad signature: an authority of the same name with another key, as after a renewal.
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => (
            TlsTrouble::UnknownAuthority,
            "put the authority's certificate into the bundle that SSL_CERT_FILE names",
        ),
        _ => (TlsTrouble::Handshake, "does the port speak https?"),
    };
    HttpError::Tls(trouble, format!("{}: {error}; {cure}", trouble.word()))
}

fn build(cert_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let roots = match cert_file {
        Some(file) => load(file).map_err(|error| {
            format!(
                "no trusted roots: SSL_CERT_FILE names {}: {error}",
                file.display()
            )
        })?,
        None => SYSTEM_BUNDLES
            .iter()
            .find_map(|file| load(Path::new(file)).ok())
            .ok_or_else(|| {
                format!(
                    "no trusted roots: none of {} can be read; install the package \
                     ca-certificates or set SSL_CERT_FILE",
                    SYSTEM_BUNDLES.join(", ")
                )
            })?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// The roots in a PEM file; one that cannot be parsed is passed over, as bundles have them.
fn load(file: &Path) -> Result<RootCertStore, String> {
    let mut pem = Vec::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(BUNDLE_BYTES_MOST).read_to_end(&mut pem))
        .map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).flatten());
    if roots.is_empty() {
        return Err("there is no certificate in it".into());
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_that_cannot_be_read_are_named_on_the_call() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "nothing").unwrap();
        for file in [folder.path().join("missing.pem"), empty] {
            let error = Tls::new(Some(file.clone())).config().unwrap_err();
            assert!(
                matches!(error, HttpError::Tls(TlsTrouble::NoRoots, _)),
                "{error}"
            );
            assert!(error.to_string().contains(&file.display().to_string()));
            assert!(error.to_string().contains("SSL_CERT_FILE"));
        }
    }
}
