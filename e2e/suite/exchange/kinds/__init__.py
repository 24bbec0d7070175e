# SPDX-License-Identifier: Apache-2.0
"""The exchange with other kinds of models and of scheduling than the small Qwen3's; each with engines of its own."""

import pytest

pytest.register_assert_rewrite(f"{__name__}.talks")
