# SPDX-License-Identifier: Apache-2.0
"""The cluster's own certificate authority, and kubeconfig files that carry their credentials in them."""

import datetime as dt
import ipaddress
import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID_FOR = dt.timedelta(days=3650)
_CLOCK_SKEW = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Credentials:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> None:
        """Write `name`.crt and, readable by the owner only, `name`.key."""
        (folder / f"{name}.crt").write_bytes(self.certificate)
        key = folder / f"{name}.key"
        key.touch(mode=0o600)
        key.write_bytes(self.key)


class Authority:
    """Signs the certificates of one cluster, for servers and clients alike. Lives as long as one `up`."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def new(cls) -> Self:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name("tandem-local")
        builder = (
            _builder(subject, subject, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @property
    def certificate(self) -> bytes:
        """The authority's certificate, PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, *, group: str | None = None, hosts: Sequence[str] = ()) -> Credentials:
        """A certificate for `name` as a client and, under `hosts` (addresses or DNS names), as a server.

        Kubernetes takes the common name as the user and the organisation as its group.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(_name(name, group), self._certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        signed = builder.sign(self._key, hashes.SHA256())
        return Credentials(signed.public_bytes(serialization.Encoding.PEM), _pem(key))


def signing_key() -> tuple[bytes, bytes]:
    """A private and a public key, PEM: what service account tokens are signed and checked with."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _pem(key), public


def kubeconfig(server: str, authority: bytes, client: Credentials) -> str:
    """A kubeconfig for one user of one cluster. It is JSON, which every reader of YAML understands."""

    def encoded(pem: bytes) -> str:
        return b64encode(pem).decode()

    user = {"client-certificate-data": encoded(client.certificate), "client-key-data": encoded(client.key)}
    cluster = {"server": server, "certificate-authority-data": encoded(authority)}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tandem", "cluster": cluster}],
            "users": [{"name": "tandem", "user": user}],
            "contexts": [{"name": "tandem", "context": {"cluster": "tandem", "user": "tandem"}}],
            "current-context": "tandem",
        },
        indent=2,
    )


def _name(common: str, organisation: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organisation:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation))
    return x509.Name(attributes)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALID_FOR)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
