"""`prune policies`."""

from __future__ import annotations

from typing import Any

from prune.cli.options import screen as with_screen
from prune.cli.options import verb
from prune.cli.output import Screen


@verb("policies")
@with_screen
def command(screen: Screen) -> int:
    """List the ready policies and the layouts."""
    from prune import layouts
    from prune.report.lines import Cell, Grid, line
    from prune.report.render import show
    from prune.settings import policies

    ready = [policies.read_ready(name) for name in policies.ready()]
    titles = {name: _title(name) for name in layouts.names()}
    if screen.json:
        screen.emit(
            {
                "schema": "prune.policies/1",
                "policies": [
                    {"name": policy.name, "title": policy.title, "layout": policy.layout, "file": policy.path,
                     "keep": policy.table.get("keep", {})}
                    for policy in ready
                ],
                "layouts": [{"name": name, "title": title} for name, title in titles.items()],
            }
        )  # fmt: skip
        return 0
    grid = Grid(("policy", "layout", "keeps", "what"))
    for policy in ready:
        keeps = _words(policy.table.get("keep", {}))
        grid.rows.append((Cell(policy.name, "strong"), Cell(policy.layout), Cell(keeps), Cell(policy.title)))
    known = Grid(("layout", "what"))
    known.rows.extend((Cell(name, "strong"), Cell(title)) for name, title in titles.items())
    use = line('use one by policy = "NAME" in prune.toml, or --policy NAME')
    show([grid, line(), known, line(), use], screen)
    return 0


def _title(layout: str) -> str:
    from prune import layouts
    from prune.errors import UsageError

    try:
        return layouts.get(layout, {}).title
    except UsageError:  # one that needs options of the user's
        return "names that you describe"


def _words(keep: dict[str, Any]) -> str:
    return ", ".join(f"{rule} {value}" for rule, value in keep.items() if not isinstance(value, dict)) or "last 12"
