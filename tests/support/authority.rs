//! A certificate authority of a test's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// An authority that signs certificates of servers.
pub struct Authority {
    certificate: Certificate,
    key: KeyPair,
}

/// Whether a certificate is in its time.
#[derive(Clone, Copy)]
pub enum Time {
    /// Valid now.
    Valid,
    /// Its last day is past.
    Expired,
}

impl Authority {
    /// A fresh one of that name.
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Authority { certificate, key }
    }

    /// Writes its certificate as `SSL_CERT_FILE` would name it.
    pub fn bundle(&self, folder: &Path) -> PathBuf {
        let file = folder.join("bundle.pem");
        std::fs::write(&file, self.certificate.pem()).expect("a file");
        file
    }

    /// A server's side of TLS with a certificate for `name`.
    pub fn server(&self, name: &str, time: Time) -> Arc<rustls::ServerConfig> {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        if let Time::Expired = time {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params
            .signed_by(&key, &self.certificate, &self.key)
            .expect("a certificate");
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a server");
        Arc::new(config)
    }
}
