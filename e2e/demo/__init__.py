# SPDX-License-Identifier: Apache-2.0
"""`make demo`: from nothing to an answered conversation, with a table of what was computed and moved."""
