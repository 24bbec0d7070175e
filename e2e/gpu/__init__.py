# SPDX-License-Identifier: Apache-2.0
"""`python -m e2e.gpu`: the exchange proved on one CUDA GPU that two engines share. Needs no cluster and no root."""
