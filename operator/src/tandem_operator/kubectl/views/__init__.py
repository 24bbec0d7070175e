# SPDX-License-Identifier: Apache-2.0
"""What is to be told of observed objects. Pure; each view is also what `--output json` prints."""
