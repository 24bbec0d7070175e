# SPDX-License-Identifier: Apache-2.0
"""The operator: turns a DisaggregatedInference into prefill and decode pools that know their peers."""
