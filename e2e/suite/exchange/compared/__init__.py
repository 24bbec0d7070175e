# SPDX-License-Identifier: Apache-2.0
"""What decode answers whatever happens to its prompts and its peers, compared with a plain engine that runs beside it."""
