# SPDX-License-Identifier: Apache-2.0
"""A front door under load while the decode engines behind it fail: who asks, what fails, who served whom, how it ended."""
