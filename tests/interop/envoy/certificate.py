"""Prints a new self-signed certificate for 127.0.0.1 and its private key, as JSON with PEM in it.

The first argument is its common name; others are names of DNS and URIs that it is for as well.
"""

import datetime
import ipaddress
import json
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


def main() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, sys.argv[1])])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    names = [
        x509.UniformResourceIdentifier(name) if "://" in name else x509.DNSName(name) for name in sys.argv[2:]
    ]
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.SubjectAlternativeName([address, *names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private_key = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    print(json.dumps({"certificate": pem.decode(), "private_key": private_key.decode()}))


if __name__ == "__main__":
    main()
