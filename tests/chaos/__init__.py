"""Faults at random on a whole installation: several databases, nodes and workers as real processes, under load.

    world    the processes, and their folder        faults     what goes wrong, one kind a function
    load     schedules and one-offs, acknowledged   verdict    what was promised, and whether it was kept
    watch    who leads which shard, all the time    lateness   how late things were, by the kind of fault

`python -m tests.chaos --minutes 20 --seed 7`, or `make chaos MINUTES=20`.
"""
