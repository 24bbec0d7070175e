# SPDX-License-Identifier: Apache-2.0
"""Models of everything that crosses a process border: imported by the operator and by the engines, importing nothing of ours."""
