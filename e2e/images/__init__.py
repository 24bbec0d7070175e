# SPDX-License-Identifier: Apache-2.0
"""Container images without a container engine: OCI archives made of Debian packages and wheels."""
