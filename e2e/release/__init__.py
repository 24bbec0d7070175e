# SPDX-License-Identifier: Apache-2.0
"""What .github/workflows/release.yaml needs to know of the sources, so that it can be tried without GitHub."""
