# SPDX-License-Identifier: Apache-2.0
"""Sees to the Secrets with the keys of exchanges, without ever reading one."""

from typing import NamedTuple

import structlog

from tandem_connector.contract.keys import ExchangeKey
from tandem_operator.api.resource import Metadata
from tandem_operator.kube.client import Client
from tandem_operator.kube.errors import Conflict, Refused
from tandem_operator.kube.kinds import SECRET
from tandem_operator.plan.children import key_of
from tandem_operator.plan.types import Refusal, WantedKey

_log = structlog.get_logger()


class Ensured(NamedTuple):
    """What has become of a wanted key."""

    missing: WantedKey | None
    """The user's Secret, when it isn't there."""
    refusals: tuple[Refusal, ...]


async def ensure_key(client: Client, owner: Metadata, wanted: WantedKey) -> Ensured:
    """Make the Secret with a new key if there is none; a Secret that is there is left as it is.

    Whether the user's is there is asked by a creation that is only tried: the right to create tells nothing of what a Secret
    holds, while the right to list or get its metadata is the right to read it (Kubernetes' authorization does not tell the
    two apart).
    """
    try:
        if not wanted.generated:
            await client.create(SECRET, owner.namespace, wanted.secret, dry_run=True)
            return Ensured(wanted, ())
        data = {wanted.entry: ExchangeKey.generate().to_file()}
        await client.create(SECRET, owner.namespace, {**wanted.secret, "stringData": data})
        _log.info("key made", secret=wanted.secret["metadata"]["name"])
    except Conflict:
        return Ensured(None, ())
    except Refused as error:
        # A quota or a policy that refuses the trial says nothing of the user's Secret.
        return Ensured(
            None, (Refusal(key_of(wanted.secret), immutable=False, message=str(error)),) if wanted.generated else ()
        )
    return Ensured(None, ())
