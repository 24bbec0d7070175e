# SPDX-License-Identifier: Apache-2.0
"""The Helm chart (in tandem/) and the tool that derives files from it."""
