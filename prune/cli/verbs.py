"""Every verb, where it lives and what it does in one line: `prune --help` reads this table and imports no command."""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """``module`` holds a click command called ``command``."""

    module: str
    help: str


SECTIONS: dict[str, dict[str, Verb]] = {
    "Look": {
        "plan": Verb("prune.cli.plan", "Preview what would be kept and deleted on each replica, and why."),
        "status": Verb("prune.cli.status", "Runs, free space, forecast, resume candidate, and why nothing is freed."),
        "explain": Verb("prune.cli.explain", "Everything known about one step, also after it is gone."),
        "verify": Verb("prune.cli.verify", "Check copies: size, structure, SHA-256."),
        "resume": Verb("prune.cli.resume", "Print the checkpoint to resume from, alone on stdout."),
        "history": Verb("prune.cli.history", "What was deleted, when, by which plan, and why."),
        "pins": Verb("prune.cli.pins", "List the pinned steps."),
        "simulate": Verb("prune.cli.simulate", "Steady state, peak use and first hour of trouble of a policy."),
        "doctor": Verb("prune.cli.doctor", "Probe each replica, and say what that means for pruning."),
        "diagnose": Verb("prune.cli.diagnose", "Read a traceback: which checkpoint broke, how, what to resume from."),
        "audit": Verb("prune.cli.audit", "Find writers that copy straight onto a final name."),
    },
    "Act": {
        "apply": Verb("prune.cli.apply", "Carry a plan out: delete what it names, after looking again."),
        "make-room": Verb("prune.cli.make_room", "Free until so much is free, by the pressure order."),
        "mirror": Verb("prune.cli.mirror", "Copy missing or broken steps to the mirrors, verified."),
        "seal": Verb("prune.cli.seal", "Write manifests for whole checkpoints that have none."),
        "pin": Verb("prune.cli.pin", "Protect a step on every replica."),
        "unpin": Verb("prune.cli.unpin", "Take a step's pin away."),
        "undo": Verb("prune.cli.undo", "Put back what is still in the trash, and pin it."),
        "purge": Verb("prune.cli.purge", "Empty the trash now."),
        "adopt": Verb("prune.cli.adopt", "Accept a new or replaced volume as a new, empty mirror."),
        "serve": Verb("prune.cli.serve", "Run as a daemon: schedule, pressure watch, metrics and a page."),
    },
    "Begin": {
        "init": Verb("prune.cli.init", "Write a commented prune.toml for a checkpoint directory."),
        "policies": Verb("prune.cli.policies", "List the ready policies and the layouts."),
        "demo": Verb("prune.cli.demo", "Build a small run in a temporary directory and walk through a prune of it."),
    },
}
VERBS: dict[str, Verb] = {name: verb for section in SECTIONS.values() for name, verb in section.items()}
