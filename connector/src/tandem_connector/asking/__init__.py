# SPDX-License-Identifier: Apache-2.0
"""Who asks for the prefill: decode does, for its own requests. Decisions only: events in, commands out.

No sockets, no clock, no vLLM. It belongs to the network thread, which tells it of requests, peers and answers and
carries out its commands; `asking.Asking` is the door.
"""
