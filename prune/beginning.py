"""What a new user has: which stack wrote a directory, how big a checkpoint is, whether N + 1 of them fit; and the
commented prune.toml that says so."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prune.errors import UsageError
from prune.model import Attention
from prune.settings import policies, templates
from prune.settings.keys import Where
from prune.settings.rules import check_layout
from prune.settings.schema import Keep, ReplicaSettings, RunSettings
from prune.settings.units import format_size

if TYPE_CHECKING:
    from prune.layouts.base import Layout
    from prune.layouts.detect import Detection


@dataclass(frozen=True, slots=True)
class Beginning:
    """What was seen in a directory: one run, or several that one template stands for. Of several, sizes are those of
    the run with the largest checkpoints."""

    primary: str  # the directory that holds the steps themselves, or the template
    layout: str  # "auto" where the runs of a template differ in it
    why: str
    policy: str | None  # a ready policy of that stack, where there is one
    steps: int
    checkpoint_bytes: int | None  # the largest of the newest ones
    held_bytes: int | None
    free_bytes: int | None
    roots: tuple[str, ...]  # the directories that hold steps


def look_at(directory: str, *, stack: str | None = None) -> Beginning:
    """Looks at a checkpoint directory, or at one that holds some. Raises UsageError when no stack can be told, or when
    several directories in it hold checkpoints and no one template stands for them."""
    from prune import layouts
    from prune.layouts.detect import detect, find_places
    from prune.stores.local import LocalRoot

    try:
        with LocalRoot(directory) as root:
            if stack is not None:
                named = layouts.get(stack_layout(stack), {})
                bases, why = find_places(root, named).bases or ("",), f"as {stack!r} was named"
                found: Mapping[str, Layout] = dict.fromkeys(bases, named)
            else:
                detection = detect(root)
                found, why = _certain(directory, detection), detection.why
    except OSError as error:
        raise UsageError(f"{directory}: {error.strerror}", mend="Name a directory that holds checkpoints.") from None
    seen = []
    for base, layout in sorted(found.items()):
        policy = next((name for name in (stack, layout.name) if name in policies.ready()), None)
        seen.append(_measured(os.path.join(directory, base) if base else directory, layout.name, why, policy))
    return seen[0] if len(seen) == 1 else _together(directory, seen)


def stack_layout(stack: str) -> str:
    """The layout of a stack, which may be named by its policy or by its layout."""
    if stack in policies.ready():
        return policies.read_ready(stack).layout
    check_layout(stack, Where("--stack"))
    return stack


def room_for(found: Beginning, last: int) -> Attention | None:
    """A warning when the newest ``last`` steps and one that is being saved do not fit on the volume."""
    if not found.checkpoint_bytes or found.free_bytes is None:
        return None
    needed = (last + 1) * found.checkpoint_bytes
    there = found.free_bytes + (found.held_bytes or 0)
    if needed <= there:
        return None
    fits = max(1, there // found.checkpoint_bytes - 1)
    return Attention(
        "primary-too-small",
        "primary",
        f"{last} steps and one being saved take {format_size(needed)}, and there is room for {format_size(there)}",
        f"Keep at most {fits}, or make room on the disk.",
    )


def document(found: Beginning, *, name: str, last: int, mirrors: tuple[str, ...]) -> str:
    """The text of a commented prune.toml. Raises UsageError for a mirror that a template's runs would share."""
    try:
        templates.check(found.primary, list(mirrors))
    except ValueError as error:
        raise UsageError(
            f"{found.primary}: {error}", mend="Give each run its own: --mirror /mnt/mirror/{run}."
        ) from None
    size = f", about {format_size(found.checkpoint_bytes)} each" if found.checkpoint_bytes else ""
    if len(found.roots) > 1:
        size += f", in {len(found.roots)} runs; each directory that fits is one, tomorrow's too"
    if mirrors:
        mirror = f"mirrors = {json.dumps(list(mirrors), ensure_ascii=False)}"
    else:
        place = f"{name}/{templates.PLACE}" if templates.is_template(found.primary) else name
        mirror = '# mirrors = ["/mnt/mirror/' + place + '"]   # a step is kept until it restores from every one of them'
    policy = (
        f'policy = "{found.policy}"   # `prune policies` lists them; the tables below lie over it'
        if found.policy
        else "# policy = …   # `prune policies` lists the ready ones"
    )
    return _TEMPLATE.format(
        layout=found.layout, why=found.why, steps=found.steps, size=size, mirror=mirror, policy=policy, last=last,
        name=_toml(name), primary=_toml(found.primary),
    )  # fmt: skip


_TEMPLATE = """\
# Settings of ckpt-prune. `prune plan` shows what they mean and changes nothing; `prune apply` carries that out.
# Every key may also be set by a variable (PRUNE_RUNS__0__KEEP__LAST=20) or a flag (--keep-last 20).

[[runs]]
name = {name}
# Where training writes: {steps} steps{size}.
primary = {primary}
{mirror}
# {why}
layout = "{layout}"
{policy}
grace = "0s"        # how long what is pruned waits in the trash; `prune undo` works until then

[runs.keep]         # what any rule wants is kept
last = {last}           # the newest so many steps that restore from every mirror
# every = 1000      # and all multiples of so many steps
# daily = 7         # and one of each of seven days
# best = {{metric = "eval_loss", mode = "min", count = 2}}

[runs.guards]       # guards only ever make it delete less
in_flight = "5m"    # what was modified less than this ago is being written
# max_delete = "75%"   # a pass that would delete more is blocked until `prune apply --allow-many`

# [runs.pressure]   # for `prune serve` and `prune make-room`
# free_below = "10%"
# free_target = "20%"
# keep_last = 4     # how far a full disk may lower keep.last; without it, never
"""


def _certain(directory: str, found: Detection) -> Mapping[str, Layout]:
    """The layout of each directory that holds checkpoints; a sentence instead where none or several fit."""
    if found.layout is not None:
        return {found.base: found.layout}
    unclear = sorted(base for base, layout in found.places.items() if layout is None)
    if found.rivals or unclear:
        where = os.path.join(directory, unclear[0]) if unclear else directory
        mend = f"Say which by --stack: {', '.join(found.rivals)}." if found.rivals else f"Ask for {where} alone."
        raise UsageError(f"{where}: more than one layout fits: {found.why}", mend=mend)
    if found.places:
        return {base: layout for base, layout in found.places.items() if layout is not None}
    raise UsageError(
        f"{directory}: no checkpoints are recognised: {found.why}",
        mend="Name a directory that holds some, or the stack by --stack (`prune policies` lists them).",
    )


def _together(directory: str, seen: list[Beginning]) -> Beginning:
    """Several runs as one table of settings, by a template that stands for all of their directories."""
    roots = [one.primary for one in seen]
    template = templates.standing_for(roots)
    if template is None:
        shown = ", ".join(roots[:5]) + (f" and {len(roots) - 5} more" if len(roots) > 5 else "")
        mend = "Name one of them, and write a table [[runs]] for each."
        raise UsageError(f"{directory}: checkpoints lie in {shown}, which no one template stands for", mend=mend)
    largest = max(seen, key=lambda one: one.checkpoint_bytes or 0)
    alike = len({one.layout for one in seen}) == 1
    return replace(
        largest,
        primary=template,
        layout=largest.layout if alike else "auto",
        why=f"{len(seen)} directories that fit it hold checkpoints",
        policy=largest.policy if alike else None,
        steps=sum(one.steps for one in seen),
        roots=tuple(roots),
    )


def _measured(primary: str, layout: str, why: str, policy: str | None) -> Beginning:
    import time

    from prune import engine

    run = RunSettings("beginning", (ReplicaSettings("primary", primary, "primary"),), Keep(), layout=layout)
    inventory, plan = engine.look_at(run, now_ns=time.time_ns(), judge_all=True)
    sizes = [copy.size for step in plan.steps for copy in step.copies if copy.size is not None]
    held = [copy.bytes for step in plan.steps for copy in step.copies if copy.bytes is not None]
    return Beginning(
        primary=primary,
        layout=layout,
        why=why,
        policy=policy,
        steps=len(inventory.copies),
        checkpoint_bytes=max(sizes[-3:], default=None),
        held_bytes=sum(held) if held else None,
        free_bytes=plan.replicas[0].free_bytes,
        roots=(primary,),
    )


def _toml(text: str) -> str:
    """A basic string of TOML, which JSON's strings are, but for bytes that are not UTF-8: a file cannot name those."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"{text!r} is not UTF-8, and a file of settings must be", mend="Use --primary.") from None
    return json.dumps(text, ensure_ascii=False)
