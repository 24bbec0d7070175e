# SPDX-License-Identifier: Apache-2.0
"""The data path of the exchange against raw NIXL, on this machine's CPU memory."""
