"""Certificates for one run: an authority, the server, the canary and the attacker."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_VALID = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Certificates:
    """Files; each client's has the certificate and its key."""

    authority: Path
    server: Path
    canary: Path
    attacker: Path

    @classmethod
    def make(cls, directory: Path) -> Certificates:
        """New ones, valid for an hour."""
        key = ec.generate_private_key(ec.SECP256R1())
        root = _certificate("authority", key.public_key(), "authority", key, is_authority=True)
        authority = directory / "authority.pem"
        authority.write_bytes(root.public_bytes(serialization.Encoding.PEM))

        def leaf(name: str) -> Path:
            own = ec.generate_private_key(ec.SECP256R1())
            made = _certificate(name, own.public_key(), "authority", key, is_authority=False)
            file = directory / f"{name}.pem"
            private_key = own.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private_key)
            file.chmod(0o600)
            return file

        return cls(authority, leaf("server"), leaf("canary"), leaf("attacker"))


def _certificate(
    name: str,
    public_key: ec.EllipticCurvePublicKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
) -> x509.Certificate:
    def common_name(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    now = datetime.datetime.now(datetime.timezone.utc)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(common_name(name))
        .issuer_name(common_name(issuer))
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )
    if not is_authority:
        alternatives = [x509.DNSName(name), *names] if name == "server" else [x509.DNSName(name)]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
