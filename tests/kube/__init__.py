# SPDX-License-Identifier: Apache-2.0
"""Tests of the code that talks to the API server, and the API server that they talk to."""
