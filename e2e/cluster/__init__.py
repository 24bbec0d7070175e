# SPDX-License-Identifier: Apache-2.0
"""Where Kubernetes comes from.

One interface (`interface.Cluster`) and three providers, chosen by the environment variable `CLUSTER`: `local` builds
Kubernetes from source and runs it on this machine without Docker, `kind` uses a Docker engine, `kubeconfig` takes the
user's own cluster. `python -m e2e.cluster --help` does by hand what the demo and the tests do.
"""

from e2e.cluster.choice import chosen_cluster

__all__ = ["chosen_cluster"]
