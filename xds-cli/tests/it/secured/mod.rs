//! Commands over TLS.

mod bootstrap;
mod client_names;
mod flags;
mod wrong_files;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer,
    KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};

use crate::support::{TempDir, Xds, clusters};

/// Writes the certificates of one authority: `ca.pem`, `server.pem` and `.key`,
/// `client.pem` and `.key`, and the revocation lists `none.crl`, `client.crl` and `old.crl`.
fn certificates(directory: &TempDir) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    directory.save("ca.pem", &params.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(params, key);
    for (name, host, serial) in [("server", "127.0.0.1", 1_u64), ("client", "client", 2)] {
        let key = KeyPair::generate().unwrap();
        let mut certificate = CertificateParams::new([host.to_owned()]).unwrap();
        certificate.serial_number = Some(serial.into());
        let certificate = certificate.signed_by(&key, &issuer).unwrap();
        directory.save(&format!("{name}.pem"), &certificate.pem());
        directory.save(&format!("{name}.key"), &key.serialize_pem());
    }
    for (name, serials, until) in
        [("none.crl", &[][..], 2034), ("client.crl", &[2_u64], 2034), ("old.crl", &[], 2025)]
    {
        let revoked = |&serial: &u64| RevokedCertParams {
            serial_number: serial.into(),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        directory.save(name, &list.signed_by(&issuer).unwrap().pem().unwrap());
    }
}

struct Stage {
    files: TempDir,
    served: TempDir,
    serve: Xds,
    address: String,
}

impl Stage {
    fn new() -> Self {
        Self::serving(&[])
    }

    fn serving(more: &[&str]) -> Self {
        Self::start(&[], more)
    }

    /// Starts a server with these files of revocation lists.
    fn with_lists(lists: &[&str]) -> Self {
        Self::start(lists, &[])
    }

    fn start(lists: &[&str], more: &[&str]) -> Self {
        let (files, served) = (TempDir::new(), TempDir::new());
        certificates(&files);
        served.save("cds.yaml", &clusters("one"));
        let path = |name: &str| files.join(name).to_str().unwrap().to_owned();
        let (cert, key, ca) = (path("server.pem"), path("server.key"), path("ca.pem"));
        let tls = ["--tls-cert", &cert, "--tls-key", &key, "--client-ca", &ca];
        let lists: Vec<_> = lists.iter().map(|list| path(list)).collect();
        let lists: Vec<_> = lists.iter().flat_map(|list| ["--crl", list]).collect();
        let flags = [&["--listen", "127.0.0.1:0"][..], &tls, &lists, more].concat();
        let (serve, address) = Xds::serve_with(served.path(), &flags);
        Self { files, served, serve, address }
    }

    /// Starts `xds watch` with the client's certificate.
    fn watch(&self, node: &str) -> Xds {
        let (ca, cert, key) =
            (self.path("ca.pem"), self.path("client.pem"), self.path("client.key"));
        let flags = ["--ca", &ca, "--cert", &cert, "--key", &key, "--node", node];
        let base = ["watch", "-o", "ndjson", "--server", &self.address, "cds"];
        Xds::spawn(&[&base[..], &flags].concat())
    }

    fn path(&self, name: &str) -> String {
        self.files.join(name).to_str().unwrap().to_owned()
    }
}
