"""One file a budget: `python -m benchmarks.NAME [--quick] [--json]`. What they found stands in RESULTS.md."""
