"""Replicas in object stores: a prefix of a bucket read and pruned as a root.

address.py what a URL names · credentials.py whose keys · patience.py how long to wait · client.py requests ·
troubles.py what goes wrong · listing.py complete or an error · tree.py keys as folders · reading.py one object as a
file · root.py the root · place.py, control.py the control folder as keys · lock.py one deleter at a time · look.py what
stands there now · delete.py what goes, in bulk · hidden.py what is no copy · upload.py what comes, hashed on its way ·
uploads.py what never came

Nothing here is imported for local roots.
"""
