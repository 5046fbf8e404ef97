"""Measures the product beside its peers: ``python -m tests.benchmarks SCRATCH [SECTION …] [--rounds N]``.

SCRATCH is a directory with room. As root, sections that delete run on a fresh loop-mounted ext4 with a journal made
there, and ``slow`` on a FUSE passthrough with a millisecond on each call.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks import make
from tests.benchmarks.measure import Row, Target, group

BARE = [sys.executable, "-I", "-c", "pass"]


class Bench:
    def __init__(self, scratch: Path, rounds: int) -> None:
        self.scratch, self.rounds = scratch, rounds
        self.environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self.environment |= {"PRUNE_STATE": f"sqlite:///{scratch}/state/prune.db"}
        self.volume = scratch / "volume"

    def prune(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "prune", *words]

    def on_ext4(self, gigabytes: int, inodes: int = 3_000_000) -> None:
        """A fresh ext4 with a journal, where this user may mount one; else a plain directory."""
        self.volume.mkdir(parents=True, exist_ok=True)
        if os.getuid() != 0:
            print("(not root: on the scratch directory itself)")
            return
        image = self.scratch / "ext4.img"
        subprocess.run(["truncate", "-s", f"{gigabytes}G", image], check=True)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-N", str(inodes), image], check=True)
        subprocess.run(["mount", "-o", "loop", image, self.volume], check=True)

    def off(self) -> None:
        if os.path.ismount(self.volume):
            subprocess.run(["umount", self.volume], check=True)
            (self.scratch / "ext4.img").unlink()

    def fresh(self, name: str, build: Callable[[Path], None]) -> Path:
        root = self.volume / name
        shutil.rmtree(root, ignore_errors=True)
        build(root)
        os.sync()
        return root


def start(bench: Bench) -> None:
    from tests.trees.build import mirrored, step_files

    root = bench.scratch / "start"
    shutil.rmtree(root, ignore_errors=True)
    primary = step_files(root / "P", range(10, 470, 10))
    mirror = mirrored(primary, root / "M")
    roots = ("--primary", str(primary), "--mirror", str(mirror))
    quiet = ("apply", "--yes", *roots, "--keep-last", "60")
    cases = {
        "python -c pass": BARE,
        "prune --help": bench.prune("--help"),
        "prune plan, 46 steps and a mirror": bench.prune("plan", *roots),
        "quiet apply": bench.prune(*quiet),
    }
    subprocess.run(cases["quiet apply"], env=bench.environment, check=True, capture_output=True)
    group("start", cases, rounds=2 * bench.rounds + 1, environment=bench.environment, targets=[
        Target("prune --help", "python -c pass", 6.0),
        Target("prune plan, 46 steps and a mirror", "python -c pass", 25.0),
        Target("quiet apply", "python -c pass", 30.0),
    ])  # fmt: skip


def _deletion(bench: Bench, steps: int, shards: int, limit: float, title: str) -> None:
    kept = 12

    def build(root: Path) -> None:
        make.sharded(root, steps + kept, shards)

    root = bench.volume / "tree"
    victims = f"ls -d {root}/step-* | sort -t- -k2 -n | head -{steps} | xargs rm -rf && sync -f {bench.volume}"
    apply = bench.prune("apply", "--yes", "--quiet", "--primary", str(root))
    least = [sys.executable, "-m", "tests.benchmarks.unlink", str(root), str(steps)]
    cases = {"rm -rf": victims, "two processes, unlink alone": least, "prune apply": apply}
    owed = [Target("prune apply", "rm -rf", limit), Target("two processes, unlink alone", "rm -rf", limit)]
    group(title, cases, rounds=bench.rounds,
          before=lambda _: (bench.fresh("tree", build), None)[1], environment=bench.environment,
          targets=owed)  # fmt: skip


def delete(bench: Bench) -> None:
    bench.on_ext4(8)
    try:
        _deletion(bench, 100, 1000, 0.80, "delete 100 × 1,000 shards, ext4")
    finally:
        bench.off()


def delete_many(bench: Bench) -> None:
    bench.on_ext4(16)
    try:
        _deletion(bench, 1000, 1000, 0.75, "delete 1,000 × 1,000 shards, ext4")
    finally:
        bench.off()


def delete_tmpfs(bench: Bench) -> None:
    bench.volume.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4G", "tmpfs", bench.volume], check=True)
    try:
        _deletion(bench, 100, 1000, 1.3, "delete 100 × 1,000 shards, tmpfs")
    finally:
        subprocess.run(["umount", bench.volume], check=True)


def plan(bench: Bench) -> None:
    bench.on_ext4(16)
    try:
        root = bench.fresh("tree", lambda at: make.sharded(at, 1000, 1000))
        small = bench.fresh("small", lambda at: make.sharded(at, 1000, 10))
        of = ("plan", "--quiet", "--json", "--primary")
        group("plan 1,000 × 1,000 shards", {
            "find -printf": f"find {root} -printf '%p %T@ %s\\n'",
            "plan, 988 to delete": bench.prune(*of, str(root)),
            "plan, nothing to delete": bench.prune(*of, str(root), "--keep-last", "1000"),
            "plan, nothing to delete, 10 shards": bench.prune(*of, str(small), "--keep-last", "1000"),
        }, rounds=bench.rounds, environment=bench.environment, targets=[
            Target("plan, 988 to delete", "find -printf", 1.3),
            Target("plan, nothing to delete", "find -printf", 0.05),
            Target("plan, nothing to delete", "plan, nothing to delete, 10 shards", 1.5),
        ])  # fmt: skip
        empty = bench.fresh("none", lambda at: make.sharded(at, 12, 3))
        rows = group("memory of plan", {
            "plan, 36 files": bench.prune(*of, str(empty)),
            "plan, 1,000,000 files": bench.prune(*of, str(root)),
        }, rounds=1, environment=bench.environment)  # fmt: skip
        more = rows["plan, 1,000,000 files"].peak_mib - rows["plan, 36 files"].peak_mib
        print(f"memory above an empty run: **{more:.0f} MiB**, target ≤ 60: {'reached' if more <= 60 else 'missed'}")
    finally:
        bench.off()


def slow(bench: Bench) -> None:
    """A millisecond on each call: 128 steps of 64 files."""
    server = bench.scratch / "slowfs"
    flags = subprocess.run(["pkg-config", "fuse3", "--cflags", "--libs"], capture_output=True, text=True, check=True)
    source = Path(__file__).with_name("slowfs.c")
    subprocess.run(["cc", "-O2", "-o", server, source, *flags.stdout.split()], check=True)
    behind, front = bench.scratch / "behind", bench.scratch / "front"
    for path in (behind, front):
        path.mkdir(exist_ok=True)
    process = subprocess.Popen([server, "-f", "-o", "max_threads=128", front],
                               env={**os.environ, "SLOWFS_SRC": str(behind), "SLOWFS_META_US": "1000"})  # fmt: skip
    try:
        while not os.path.ismount(front):
            time.sleep(0.05)

        def build(_name: str) -> None:
            shutil.rmtree(behind / "tree", ignore_errors=True)
            make.sharded(behind / "tree", 140, 64)
            time.sleep(1.5)  # the kernel's cache of the names that were

        root = front / "tree"
        rm = f"ls -d {root}/step-* | sort -t- -k2 -n | head -128 | xargs rm -rf"
        group("delete 128 × 64 files at 1 ms a call", {
            "rm -rf": rm,
            "prune apply": bench.prune("apply", "--yes", "--quiet", "--primary", str(root)),
        }, rounds=bench.rounds, before=build, environment=bench.environment,
            targets=[Target("prune apply", "rm -rf", 0.10)])  # fmt: skip
        group("plan 140 × 64 files at 1 ms a call", {
            "find -printf": f"find {root} -printf '%p %T@ %s\\n'",
            "prune plan": bench.prune("plan", "--quiet", "--json", "--primary", str(root)),
        }, rounds=bench.rounds, before=build, environment=bench.environment,
            targets=[Target("prune plan", "find -printf", 0.25)])  # fmt: skip

        def build_both(name: str) -> None:
            shutil.rmtree(behind / "mirror", ignore_errors=True)
            build(name)
            subprocess.run(["cp", "-a", behind / "tree", behind / "mirror"], check=True)

        roots = [str(front / name) for name in ("tree", "mirror")]
        apply = ("apply", "--yes", "--quiet", "--primary")
        group("delete 128 × 64 files on a primary and its mirror at 1 ms a call", {
            "one after the other": " && ".join(shlex.join(bench.prune(*apply, root)) for root in roots),
            "together": bench.prune(*apply, roots[0], "--mirror", roots[1]),
        }, rounds=bench.rounds, before=build_both, environment=bench.environment,
            targets=[Target("together", "one after the other", 0.6)])  # fmt: skip
    finally:
        subprocess.run(["fusermount3", "-u", front], check=False)
        process.wait(10)


def verify(bench: Bench) -> None:
    bench.volume.mkdir(parents=True, exist_ok=True)
    two = bench.fresh("two", lambda at: make.flat(at, 2, 512 << 20))
    one = bench.fresh("one", lambda at: make.flat(at, 1, 1 << 30))
    for root in (two, one):
        subprocess.run(bench.prune("seal", "--primary", str(root)), env=bench.environment, check=True)
    try:
        group("verify sealed files, warm", {
            "sha256sum, 2 files": ["sha256sum", *map(str, sorted(two.glob("*.bin")))],
            "prune verify, 2 files": bench.prune("verify", "--again", "--primary", str(two)),
            "sha256sum, 1 file": ["sha256sum", *map(str, one.glob("*.bin"))],
            "prune verify, 1 file": bench.prune("verify", "--again", "--primary", str(one)),
        }, rounds=bench.rounds, environment=bench.environment, targets=[
            Target("prune verify, 2 files", "sha256sum, 2 files", 0.16),
            Target("prune verify, 1 file", "sha256sum, 1 file", 0.22),
        ])  # fmt: skip
    finally:
        shutil.rmtree(two)
        shutil.rmtree(one)


def mirror(bench: Bench) -> None:
    bench.volume.mkdir(parents=True, exist_ok=True)
    source = bench.fresh("from", lambda at: make.flat(at, 2, 512 << 20))
    target = bench.volume / "to"

    def empty(_name: str) -> None:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        shutil.rmtree(source / ".prune", ignore_errors=True)
        os.sync()

    files = " ".join(map(str, sorted(source.glob("*.bin"))))
    try:
        group("mirror 1 GiB in 2 files", {
            "cp + sync": f"cp -p {files} {target}/ && sync -f {target}",
            "rsync, then rsync -c": f"rsync -a {files} {target}/ && rsync -ac {files} {target}/ && sync -f {target}",
            "prune mirror": bench.prune("mirror", "--primary", str(source), "--mirror", str(target)),
        }, rounds=bench.rounds, before=empty, environment=bench.environment, targets=[
            Target("prune mirror", "cp + sync", 1.15),
            Target("prune mirror", "rsync, then rsync -c", 0.6),
        ])  # fmt: skip
    finally:
        shutil.rmtree(source)
        shutil.rmtree(target, ignore_errors=True)


def _side_by_side(bench: Bench, config: Path) -> None:
    apply = [*bench.prune("apply", "--yes", "--quiet", "--config", str(config)), "--shard"]
    subprocess.run([*apply, "1/1"], env=bench.environment, check=True, capture_output=True)

    def shards(count: int) -> str:
        return " & ".join(f"{shlex.join(apply)} {index}/{count}" for index in range(1, count + 1)) + "; wait"

    group("quiet passes by shards side by side", {
        "1 process": [*apply, "1/1"], "2 shards": shards(2), "4 shards": shards(4),
    }, rounds=bench.rounds, environment=bench.environment)  # fmt: skip


def fleet(bench: Bench) -> None:
    """Plans and quiet passes over many runs, how they grow, and what shards side by side gain."""
    config = bench.scratch / "fleet.toml"
    plans: dict[int, Row] = {}
    for runs in (1000, 10_000):
        root = bench.scratch / f"fleet-{runs}"
        if not root.exists():
            make.fleet(root, runs, 20)
        config.write_text(f'[[runs]]\nname = "{{run}}"\nprimary = "{root}/{{run}}"\n[runs.keep]\nlast = 20\n')
        rows = group(f"plan {runs:,} runs × 20", {
            "find -printf": f"find {root} -printf '%p %T@ %s\\n'",
            "prune plan": bench.prune("plan", "--quiet", "--json", "--config", str(config)),
        }, rounds=1, environment=bench.environment)  # fmt: skip
        plans[runs] = rows["prune plan"]
        if runs == 1000:  # the first pass writes down which volume is which, with a sync for each run
            _side_by_side(bench, config)
    few, many = plans[1000], plans[10_000]
    print(f"ten times the runs take **{many.cpu / few.cpu:.1f}** times the processor time and "
          f"**{many.peak_mib - few.peak_mib:.0f} MiB** more memory")  # fmt: skip


def object_store(_bench: Bench) -> None:
    from tests.benchmarks import objects

    objects.main()


SECTIONS = {
    "start": start, "delete": delete, "delete-many": delete_many, "delete-tmpfs": delete_tmpfs, "plan": plan,
    "slow": slow, "verify": verify, "mirror": mirror, "fleet": fleet, "object": object_store,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS], default=[])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    for name in options.sections or SECTIONS:
        SECTIONS[name](Bench(options.scratch.resolve(), options.rounds))


if __name__ == "__main__":
    main()
