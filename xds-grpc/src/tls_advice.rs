//! Explanations of TLS handshake failures, with advice for the user.

use std::io;

use rustls::{
    AlertDescription as Alert, CertificateError, Error, InvalidMessage, pki_types::ServerName,
};

/// Role of the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerRole {
    /// The peer is a server.
    Server,
    /// The peer is a client.
    Client,
}

/// Returns the text of a TLS handshake error, followed by advice for the user if the cause is
/// known.
///
/// ```
/// use std::io;
/// use xds_grpc::credentials::{PeerRole, explain_tls_failure};
///
/// let error = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
/// let text = explain_tls_failure(&io::Error::other(error), PeerRole::Server);
/// assert!(text.starts_with("invalid peer certificate: UnknownIssuer; "));
/// assert!(text.contains("CA certificate"));
/// ```
#[must_use]
pub fn explain_tls_failure(error: &io::Error, peer: PeerRole) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    let advice = match cause {
        Some(cause) => advice(cause, peer),
        None => closed(error, peer),
    };
    match advice {
        Some(advice) => format!("{error}; {advice}"),
        None => error.to_string(),
    }
}

fn closed(error: &io::Error, peer: PeerRole) -> Option<String> {
    use io::ErrorKind as Kind;

    let is_closed =
        matches!(error.kind(), Kind::UnexpectedEof | Kind::ConnectionReset | Kind::BrokenPipe);
    is_closed.then(|| match peer {
        PeerRole::Server => {
            "the server closed the connection during the TLS handshake: check that the port speaks \
                         TLS, and whether the server wants a client certificate"
                .into()
        }
        PeerRole::Client => {
            "the client closed the connection during the TLS handshake, perhaps because it rejects \
                         the certificate of this server"
                .into()
        }
    })
}

fn advice(error: &Error, peer: PeerRole) -> Option<String> {
    let text = match (error, peer) {
        (Error::InvalidCertificate(error), _) => return of_certificate(error, peer),
        // The peer's data is not a TLS record.
        (Error::InvalidMessage(InvalidMessage::InvalidContentType), PeerRole::Server) => {
            "the server does not speak TLS on this port: connect without TLS (plaintext), or to its TLS port"
        }
        (Error::InvalidMessage(InvalidMessage::InvalidContentType), PeerRole::Client) => {
            "the client does not speak TLS: configure it to use TLS, or serve this port without"
        }
        (Error::NoCertificatesPresented, PeerRole::Client) => {
            "the client sent no certificate: configure a client certificate from an authority that \
             this server trusts"
        }
        (Error::NoApplicationProtocol, PeerRole::Client)
        | (Error::AlertReceived(Alert::NoApplicationProtocol), PeerRole::Server) => {
            "client and server do not agree on a protocol: gRPC needs HTTP/2 (ALPN h2)"
        }
        (Error::AlertReceived(alert), _) => return of_alert(*alert, peer),
        (Error::PeerIncompatible(_), _) => {
            "client and server have no version or cipher of TLS in common: TLS 1.2 or 1.3 is needed"
        }
        _ => return None,
    };
    Some(text.into())
}

/// Returns advice about an alert that the peer sent.
fn of_alert(alert: Alert, peer: PeerRole) -> Option<String> {
    let text = match (alert, peer) {
        (
            Alert::CertificateRequired | Alert::HandshakeFailure | Alert::NoCertificate,
            PeerRole::Server,
        ) => {
            "the server rejected the handshake: it may require a client certificate (mutual TLS), which must \
             be configured"
        }
        (
            Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::CertificateUnknown
            | Alert::UnsupportedCertificate
            | Alert::AccessDenied
            | Alert::DecryptError,
            PeerRole::Server,
        ) => {
            "the server rejected the client certificate: it must be issued by an authority that the server \
             trusts"
        }
        (Alert::CertificateExpired, PeerRole::Server) => {
            "the server considers the client certificate expired: renew it, or check the clocks"
        }
        (Alert::CertificateRevoked, PeerRole::Server) => {
            "the server rejected the client certificate because it has been revoked: issue another one"
        }
        (Alert::UnrecognisedName, PeerRole::Server) => {
            "the server has no certificate for the requested name: set another server name"
        }
        (Alert::ProtocolVersion, _) => {
            "client and server have no version of TLS in common: TLS 1.2 or 1.3 is needed"
        }
        (Alert::UnknownCA | Alert::CertificateUnknown, PeerRole::Client) => {
            "the client does not trust the certificate of this server: give the client the CA certificate that \
             issued it"
        }
        (Alert::BadCertificate | Alert::UnsupportedCertificate, PeerRole::Client) => {
            "the client rejected the certificate of this server: check its names, and that it is not a CA \
             certificate"
        }
        (Alert::CertificateExpired, PeerRole::Client) => {
            "the client considers the certificate of this server expired: renew it, or check the clocks"
        }
        _ => return None,
    };
    Some(text.into())
}

fn of_certificate(error: &CertificateError, peer: PeerRole) -> Option<String> {
    use CertificateError as E;

    let whose = match peer {
        PeerRole::Server => "the server's certificate",
        PeerRole::Client => "the client's certificate",
    };
    Some(match error {
        E::UnknownIssuer => format!(
            "{whose} was not issued by a trusted authority: trust the CA certificate that issued \
             it, and have the peer send its intermediate certificates"
        ),
        E::Expired | E::ExpiredContext { .. } => {
            format!("{whose} has expired: renew it, or check the clock of this machine")
        }
        E::NotValidYet | E::NotValidYetContext { .. } => {
            format!("{whose} is not valid yet: check the clock of this machine and of its issuer")
        }
        E::Revoked => format!(
            "{whose} has been revoked: a certificate revocation list (CRL) of its issuer contains it"
        ),
        E::UnknownRevocationStatus => format!(
            "no certificate revocation list (CRL) covers {whose}: add the list of each authority in \
             its chain"
        ),
        E::NotValidForNameContext { expected, presented } => {
            let expected = name(expected);
            let presented = match presented.as_slice() {
                [] => "no names".into(),
                names => names.join(", "),
            };
            format!(
                "{whose} is not for {expected} but for {presented}: connect by one of its names, state the \
                 expected server name, or issue it for {expected}"
            )
        }
        E::NotValidForName => {
            format!(
                "{whose} has none of the expected names: expect one of its names, or issue it for another"
            )
        }
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => format!(
            "{whose} is for another purpose: its extended key usage must contain {}",
            match peer {
                PeerRole::Server => "serverAuth",
                PeerRole::Client => "clientAuth",
            }
        ),
        E::Other(other) => match other.0.downcast_ref::<webpki::Error>() {
            Some(webpki::Error::CaUsedAsEndEntity) => format!(
                "{whose} is a CA certificate, which cannot be used as {}: issue a certificate \
                 without CA:TRUE from it, and use that",
                match peer {
                    PeerRole::Server => "a server certificate",
                    PeerRole::Client => "a client certificate",
                }
            ),
            _ => return None,
        },
        _ => return None,
    })
}

fn name(name: &ServerName<'_>) -> String {
    name.to_str().into_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;

    use super::*;

    #[test]
    fn tls_errors_with_a_remedy_state_it() {
        let of = |error: CertificateError| Error::InvalidCertificate(error);
        let ca = OtherError(Arc::new(webpki::Error::CaUsedAsEndEntity));
        let names = CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("xds.example").expect("a name"),
            presented: vec!["a.example".into(), "b.example".into()],
        };
        let plain = Error::InvalidMessage(InvalidMessage::InvalidContentType);
        for (error, peer, words) in [
            (
                of(CertificateError::Other(ca)),
                PeerRole::Server,
                "cannot be used as a server certificate",
            ),
            (of(names), PeerRole::Server, "is not for xds.example but for a.example, b.example"),
            (
                of(CertificateError::Expired),
                PeerRole::Client,
                "the client's certificate has expired",
            ),
            (of(CertificateError::Revoked), PeerRole::Client, "certificate has been revoked"),
            (of(CertificateError::UnknownRevocationStatus), PeerRole::Client, "no certificate rev"),
            (of(CertificateError::NotValidYet), PeerRole::Server, "clock"),
            (of(CertificateError::UnknownIssuer), PeerRole::Server, "trust the CA certificate"),
            (of(CertificateError::InvalidPurpose), PeerRole::Client, "clientAuth"),
            (plain.clone(), PeerRole::Server, "the server does not speak TLS on this port"),
            (plain, PeerRole::Client, "the client does not speak TLS"),
            (Error::AlertReceived(Alert::CertificateRequired), PeerRole::Server, "mutual TLS"),
            (Error::AlertReceived(Alert::UnknownCA), PeerRole::Client, "does not trust"),
            (Error::NoCertificatesPresented, PeerRole::Client, "sent no certificate"),
        ] {
            let own = error.to_string();
            let text =
                explain_tls_failure(&io::Error::new(io::ErrorKind::InvalidData, error), peer);
            assert!(text.starts_with(&format!("{own}; ")) && text.contains(words), "{text}");
        }
        let eof = io::Error::new(io::ErrorKind::UnexpectedEof, "tls handshake eof");
        let text = explain_tls_failure(&eof, PeerRole::Server);
        assert!(text.contains("check that the port speaks TLS"), "{text}");
        let other = io::Error::other("something else");
        assert_eq!(explain_tls_failure(&other, PeerRole::Client), "something else");
    }
}
