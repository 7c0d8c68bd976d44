"""The same work on the systems that people would pick instead, side by side in one run: `python -m benchmarks.peers`."""
