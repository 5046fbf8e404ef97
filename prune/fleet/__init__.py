"""Many runs: what one of them is to a cluster, and what they may keep together.

tasks.py one run's work, as a function that any machine can carry out · dask.py such functions on a Dask cluster ·
budget.py who may keep how much
"""
