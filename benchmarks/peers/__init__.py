"""Kernels that others wrote, and their launches in the simulator. Installed as inductor_flydsl.benchmarks.peers."""

from __future__ import annotations


class PeerMissing(RuntimeError):
    """A peer is not installed here: the message is one line that says what to do."""
