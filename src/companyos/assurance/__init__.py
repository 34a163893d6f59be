"""Checks that the benchmark is sound: proofs of solvability, twins, laws, replay, regrading and the floor."""
