//! Kinds of content of files that should contain certificates or a private key in PEM form, for
//! error messages. The content itself is never printed.

use core::fmt;

/// Kind of content found in a file instead of the expected certificates or private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileContent {
    /// The file is empty.
    Nothing,
    /// No PEM section, for example a file in DER form.
    NoPem,
    /// Certificates and no private key.
    Certificate,
    /// A private key and no certificate.
    PrivateKey,
    /// An encrypted private key.
    EncryptedKey,
    /// A certificate signing request.
    Request,
    /// A public key.
    PublicKey,
    /// A section of the expected kind that cannot be decoded, for example because it is truncated.
    Broken,
    /// Other PEM sections.
    Other,
}

impl FileContent {
    /// Classifies a file from which not all certificates, or none, could be read.
    pub(super) fn instead_of_certificates(content: &[u8]) -> Self {
        match Self::of(content) {
            Self::Certificate => Self::Broken,
            other => other,
        }
    }

    /// Classifies a file from which not all certificate revocation lists, or none, could be read.
    pub(super) fn instead_of_revocation_lists(content: &[u8]) -> Self {
        match content.split(|byte| *byte == b'\n').filter_map(label).any(|it| it == b"X509 CRL") {
            true => Self::Broken,
            false => Self::of(content),
        }
    }

    /// Classifies a file from which no private key could be read.
    pub(super) fn instead_of_key(content: &[u8]) -> Self {
        match Self::of(content) {
            Self::PrivateKey => Self::Broken,
            other => other,
        }
    }

    fn of(content: &[u8]) -> Self {
        if content.trim_ascii().is_empty() {
            return Self::Nothing;
        }
        let mut kinds =
            content.split(|byte| *byte == b'\n').filter_map(label).map(Self::from_label);
        let Some(first) = kinds.next() else { return Self::NoPem };
        // Other sections may precede the relevant one, such as EC parameters before a key.
        kinds.fold(first, |kind, next| if kind == Self::Other { next } else { kind })
    }

    fn from_label(label: &[u8]) -> Self {
        match label {
            b"CERTIFICATE" => Self::Certificate,
            b"PRIVATE KEY" | b"RSA PRIVATE KEY" | b"EC PRIVATE KEY" => Self::PrivateKey,
            b"ENCRYPTED PRIVATE KEY" => Self::EncryptedKey,
            b"CERTIFICATE REQUEST" | b"NEW CERTIFICATE REQUEST" => Self::Request,
            b"PUBLIC KEY" | b"RSA PUBLIC KEY" => Self::PublicKey,
            _ => Self::Other,
        }
    }
}

/// Returns the label of the PEM section that a line begins.
fn label(line: &[u8]) -> Option<&[u8]> {
    line.trim_ascii().strip_prefix(b"-----BEGIN ")?.strip_suffix(b"-----")
}

impl fmt::Display for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "the file is empty",
            Self::NoPem => {
                "no line begins with `-----BEGIN`; if the file is in DER form, convert it with \
                 openssl"
            }
            Self::Certificate => "the file contains a certificate",
            Self::PrivateKey => "the file contains a private key",
            Self::EncryptedKey => {
                "the file contains an encrypted private key; decrypt it with `openssl pkey`"
            }
            Self::Request => "the file contains a certificate signing request, not the certificate",
            Self::PublicKey => "the file contains a public key",
            Self::Broken => "the file is truncated or invalid",
            Self::Other => "the file contains something else",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_content_kind_is_determined_by_its_pem_sections() {
        let section =
            |label: &str| format!("-----BEGIN {label}-----\r\nAAAA\n-----END {label}-----\n");
        for (content, expected) in [
            (String::new(), FileContent::Nothing),
            (" \n".into(), FileContent::Nothing),
            ("hello".into(), FileContent::NoPem),
            (section("CERTIFICATE"), FileContent::Certificate),
            (section("EC PRIVATE KEY"), FileContent::PrivateKey),
            (section("EC PARAMETERS") + &section("EC PRIVATE KEY"), FileContent::PrivateKey),
            (section("ENCRYPTED PRIVATE KEY"), FileContent::EncryptedKey),
            (section("CERTIFICATE REQUEST"), FileContent::Request),
            (section("PUBLIC KEY"), FileContent::PublicKey),
            (section("X509 CRL"), FileContent::Other),
        ] {
            assert_eq!(FileContent::of(content.as_bytes()), expected, "{content}");
        }
        let cut = b"-----BEGIN CERTIFICATE-----\nAAAA\n";
        assert_eq!(FileContent::instead_of_certificates(cut), FileContent::Broken);
        assert_eq!(FileContent::instead_of_key(cut), FileContent::Certificate);
    }
}
