"""Plan → withdrawn, purged, recorded. The only code that deletes checkpoints.

locks.py one deleter at a time · recovery.py what a dead pass left · sweep.py the pass over a plan's victims ·
withdraw.py one batch out of sight · trash.py back, or gone for good · undo.py what a person takes back
"""
