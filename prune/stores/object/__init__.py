"""Replicas in object stores: a prefix of a bucket read and pruned as a root.

address.py what a URL names · credentials.py whose keys · client.py requests · listing.py complete or an error ·
tree.py keys as folders · reading.py one object as a file · root.py the root · control.py the control folder as keys ·
lock.py one deleter at a time · delete.py what goes, in bulk · upload.py what comes, hashed on its way

Nothing here is imported for local roots.
"""
