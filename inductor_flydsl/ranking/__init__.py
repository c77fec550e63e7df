"""The order in which an op's configs are tried: what one is expected to take, in microseconds, by arithmetic alone.

An estimate compiles nothing and costs microseconds; `bench ranking` holds it against the timing model. What stands here
is no part of a kernel's identity: an order that changes leaves the store's kernels as they are.
"""
