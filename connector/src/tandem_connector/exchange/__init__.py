# SPDX-License-Identifier: Apache-2.0
"""The exchange of KV blocks as a state machine: messages and events in, messages and commands out.

No sockets, no clock, no vLLM: it runs on the scheduler's thread inside an engine, and under a model checker in the tests.
"""
