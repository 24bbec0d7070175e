# SPDX-License-Identifier: Apache-2.0
"""Settings of all fast tests."""

from hypothesis import settings

# Which examples take how long says something of the machine, and of who else uses it.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
