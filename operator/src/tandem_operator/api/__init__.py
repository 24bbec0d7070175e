# SPDX-License-Identifier: Apache-2.0
"""The custom resource as pydantic models: the only source of the CRD, its rules and its reference."""
