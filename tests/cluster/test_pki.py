# SPDX-License-Identifier: Apache-2.0
"""The certificate authority of a cluster."""

import ipaddress
import json
import socket
import ssl
import stat
import threading
from base64 import b64decode
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from e2e.cluster.local.pki import Authority, kubeconfig, signing_key


def attribute(certificate: bytes, oid: x509.ObjectIdentifier) -> list[str | bytes]:
    return [each.value for each in x509.load_pem_x509_certificate(certificate).subject.get_attributes_for_oid(oid)]


def test_kubernetes_sees_the_user_and_its_group() -> None:
    issued = Authority.new().issue("system:node:one", group="system:nodes")

    assert attribute(issued.certificate, NameOID.COMMON_NAME) == ["system:node:one"]
    assert attribute(issued.certificate, NameOID.ORGANIZATION_NAME) == ["system:nodes"]


def test_a_user_without_a_group_is_in_none() -> None:
    assert attribute(Authority.new().issue("admin").certificate, NameOID.ORGANIZATION_NAME) == []


def test_hosts_are_addresses_or_names() -> None:
    issued = Authority.new().issue("server", hosts=("127.0.0.1", "kubernetes.default"))

    certificate = x509.load_pem_x509_certificate(issued.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1")]
    assert names.get_values_for_type(x509.DNSName) == ["kubernetes.default"]


def handshake(folder: Path, trusted: Authority, server: Authority) -> None:
    """Connect to a server whose certificate `server` issued, trusting `trusted` only."""
    server.issue("server", hosts=("localhost",)).write(folder, "server")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(folder / "server.crt", folder / "server.key")
    asking = ssl.create_default_context(cadata=trusted.certificate.decode())
    here, there = socket.socketpair()

    def serve() -> None:
        try:
            serving.wrap_socket(there, server_side=True).close()
        except ssl.SSLError:
            there.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        asking.wrap_socket(here, server_hostname="localhost").close()
    finally:
        here.close()
        thread.join()


def test_a_server_of_the_authority_is_trusted(tmp_path: Path) -> None:
    authority = Authority.new()

    handshake(tmp_path, trusted=authority, server=authority)


def test_a_server_of_another_cluster_is_not_trusted(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, trusted=Authority.new(), server=Authority.new())


def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    Authority.new().issue("admin").write(tmp_path, "admin")

    assert stat.S_IMODE((tmp_path / "admin.key").stat().st_mode) == 0o600


def test_a_kubeconfig_carries_all_that_is_needed() -> None:
    authority = Authority.new()
    client = authority.issue("admin")

    written = json.loads(kubeconfig("https://127.0.0.1:1", authority.certificate, client))

    (cluster,) = written["clusters"]
    (user,) = written["users"]
    (context,) = written["contexts"]
    assert cluster["cluster"]["server"] == "https://127.0.0.1:1"
    assert b64decode(cluster["cluster"]["certificate-authority-data"]) == authority.certificate
    assert b64decode(user["user"]["client-key-data"]) == client.key
    assert context["context"] == {"cluster": cluster["name"], "user": user["name"]}
    assert written["current-context"] == context["name"]


def test_the_keys_of_service_accounts_are_a_pair() -> None:
    private, public = signing_key()

    assert private.startswith(b"-----BEGIN PRIVATE KEY-----")
    assert public.startswith(b"-----BEGIN PUBLIC KEY-----")
