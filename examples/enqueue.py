"""Have things done later, from an asynchronous program.

cd examples && python enqueue.py
"""

from __future__ import annotations

import asyncio

from app.jobs import collect, h, welcome


async def main() -> None:
    """Enqueue in all ways, and wait for one run."""
    now = await welcome.enqueue(user_id=7)
    await welcome.enqueue_in("2h", user_id=7, language="hi")
    await welcome.enqueue_many([{"user_id": number} for number in range(1, 101)])

    once = collect.options(idempotency_key="order-4711")  # enqueued twice within a day, it makes one job
    first = await once.enqueue(order="4711", cents=1999)
    second = await once.enqueue(order="4711", cents=1999)
    print("the same job:", first == second)

    if now.run_id is not None:
        run = await h.runs.wait(now.run_id, timeout="1m")
        print(run["state"], run["result"])


if __name__ == "__main__":
    asyncio.run(main())
