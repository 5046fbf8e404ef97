"""Image, manifests and Slurm scripts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.files import DEPLOY, documents

MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
SCRIPTS = sorted(path for path in (DEPLOY / "slurm").iterdir())
PODS = ["deployment.yaml", "cronjob.yaml", "indexed-job.yaml"]


def pod_of(name: str) -> dict[str, Any]:
    workload = documents(DEPLOY / "kubernetes" / name)[0]
    spec = workload["spec"]
    if workload["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    pod: dict[str, Any] = spec["template"]["spec"]
    return pod


def all_documents() -> list[dict[str, Any]]:
    return [document for path in MANIFESTS for document in documents(path)]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_fit_the_schema_of_kubernetes(path: Path) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for document in documents(path):
        validate.validate(document, "1.30", strict=True)


@pytest.mark.parametrize("name", PODS)
def test_primary_and_mirror_are_claims_of_their_own(name: str) -> None:
    pod = pod_of(name)
    claims = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert claims["primary"] != claims["mirror"]
    declared = {doc["metadata"]["name"] for doc in all_documents() if doc["kind"] == "PersistentVolumeClaim"}
    assert set(claims.values()) <= declared


@pytest.mark.parametrize("name", PODS)
def test_pods_mount_every_volume_and_run_with_no_more_than_they_need(name: str) -> None:
    pod = pod_of(name)
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_there_is_one_daemon_and_passes_do_not_overlap() -> None:
    deployment = documents(DEPLOY / "kubernetes" / "deployment.yaml")[0]
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert documents(DEPLOY / "kubernetes" / "cronjob.yaml")[0]["spec"]["concurrencyPolicy"] == "Forbid"


def test_the_indexed_job_shards_from_one_to_its_completions() -> None:
    job = documents(DEPLOY / "kubernetes" / "indexed-job.yaml")[0]
    (command,) = pod_of("indexed-job.yaml")["containers"][0]["args"]
    assert job["spec"]["completionMode"] == "Indexed"
    assert f'--shard "$((JOB_COMPLETION_INDEX + 1))/{job["spec"]["completions"]}"' in command


def test_settings_in_the_config_map_are_read_by_the_product(tmp_path: Path) -> None:
    load = pytest.importorskip("prune.settings.load").load
    text = documents(DEPLOY / "kubernetes" / "config.yaml")[0]["data"]["prune.toml"]
    for side in ("primary", "mirror"):
        (tmp_path / side / "tiny").mkdir(parents=True)
    (tmp_path / "prune.toml").write_text(text.replace("/ckpt/", f"{tmp_path}/"))
    settings = load(str(tmp_path / "prune.toml"))
    assert [run.name for run in settings.runs] == ["tiny"]
    assert settings.runs[0].keep.last == 12
    assert settings.service.listen == "0.0.0.0:9469"


def test_the_dockerfile_passes_hadolint() -> None:
    beside = Path(sys.executable).parent / "hadolint"
    hadolint = str(beside) if beside.exists() else shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run(
        [hadolint, str(DEPLOY / "Dockerfile")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_runs_the_command_as_nobody_special() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert "\nUSER 10001:10001\n" in text
    assert 'ENTRYPOINT ["prune"]' in text


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_slurm_scripts_are_scripts_their_shell_can_read(path: Path) -> None:
    shell = path.read_text().splitlines()[0].removeprefix("#!")
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    assert path.stat().st_mode & 0o111


@pytest.mark.parametrize("name", ["prolog.sh", "epilog.sh"])
def test_prolog_and_epilog_never_drain_a_node(name: str, tmp_path: Path) -> None:
    for tool in ("scontrol", "runuser", "logger", "timeout"):
        (tmp_path / tool).write_text("#!/bin/sh\necho 'Comment=ckpt=200GB run=tiny'\nexit 3\n")
        (tmp_path / tool).chmod(0o755)
    done = subprocess.run(
        [str(DEPLOY / "slurm" / name)],
        capture_output=True,
        text=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_JOB_USER": "trainer"},
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_prolog_asks_for_the_room_that_the_job_names(tmp_path: Path) -> None:
    (tmp_path / "scontrol").write_text("#!/bin/sh\necho '   Comment=ckpt=1.5TiB run=tiny-2'\n")
    (tmp_path / "timeout").write_text('#!/bin/sh\necho "$@" >"$ASKED"\n')
    for tool in ("scontrol", "timeout"):
        (tmp_path / tool).chmod(0o755)
    subprocess.run(
        [str(DEPLOY / "slurm" / "prolog.sh")],
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_USER": "ann",
            "ASKED": str(tmp_path / "asked"),
        },
        timeout=20,
        check=True,
    )
    asked = (tmp_path / "asked").read_text().split()
    assert asked[:5] == ["240", "runuser", "-u", "ann", "--"]
    wanted = "prune make-room 1.5TiB --yes --quiet --config /etc/ckpt-prune/prune.toml --run tiny-2"
    assert asked[5:] == wanted.split()


def test_every_deployment_file_is_named_in_its_readme() -> None:
    readme = (DEPLOY / "README.md").read_text()
    for path in DEPLOY.rglob("*"):
        if path.is_file() and path.name != "README.md":
            assert path.name in readme, path
