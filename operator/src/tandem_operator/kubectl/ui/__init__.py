# SPDX-License-Identifier: Apache-2.0
"""The page of `kubectl tandem ui`: reads engines through the API server, and serves what it read on this machine."""
