# SPDX-License-Identifier: Apache-2.0
"""The engine's messages to its peers: one thread, which owns all sockets.

`thread.Network` is what the rest of the connector sees. Every engine listens on one socket and connects one to each
peer; a message goes over the sender's own connection, and only the answer to one that was meant for an ended engine
comes back on it.
"""
