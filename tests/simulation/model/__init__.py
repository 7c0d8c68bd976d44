"""What PostgreSQL holds and answers, as far as the duties ask for it.

    server          clock, commits, row locks, sequences; what can befall a server
    rows            a row as the driver gives it; what a new row is filled with
    answers         from the text of a named statement to what answers it
    of_runs · of_timers · of_shards · of_jobs · of_the_rest     the statements, file by file

`test_model.py` plays random changes on this model and on a real PostgreSQL and compares every answer and every row.
"""
