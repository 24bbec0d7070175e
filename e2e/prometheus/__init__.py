# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus, for the chart's alerts and dashboards."""
