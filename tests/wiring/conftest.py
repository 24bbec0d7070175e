# SPDX-License-Identifier: Apache-2.0
from tests.kube.conftest import api, client, metrics

__all__ = ["api", "client", "metrics"]
