"""A cluster in one thread: the production duties on a simulated clock, a simulated network and a model of the store.

    loop        virtual time; processes that can be frozen and killed
    chance      where every random choice comes from: one seed
    model/      the rows of PostgreSQL as far as the duties ask for them: atomic commits, row locks, read committed
    database    the real `store.database.Database` over connections to that model, which can be lost at any moment
    network     between workers, people and nodes: slow, lossy, repeating
    nodes · workers · people · troubles     who takes part, and what befalls them
    watch · books · verdict                 the promises, held against every commit and against the rows at the end
    story       one seed from the first boot to the verdict

`python -m tests.simulation --seed 17 --trace` plays one seed and tells what happened.
"""
