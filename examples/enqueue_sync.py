"""The same from a program without an event loop: each call is under `.sync`.

cd examples && python enqueue_sync.py
"""

from __future__ import annotations

from app.jobs import h, welcome


def main() -> None:
    """Enqueue by handler and by name."""
    made = welcome.sync.enqueue(user_id=8)
    h.sync.enqueue("billing.run", {"kind": "late"}, in_="10m", queue="billing")  # a handler of another program
    if made.run_id is not None:
        print(h.sync.runs.wait(made.run_id, timeout="1m")["state"])


if __name__ == "__main__":
    main()
