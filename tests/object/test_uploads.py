"""Uploads in parts that nobody finished: found, told, and ended when they are old."""

from __future__ import annotations

import re
import time
from pathlib import Path

import boto3
import pytest

from prune.model import Decision
from prune.stores.object.credentials import s3_options, static_keys
from tests.object.proxy import Answer, Fault, Passing, Proxy, Request, only, refuse
from tests.object.store import put_all, run_on, step_keys
from tests.runs import applied, planned


def begin(bucket: str, s3_server: str, key: str) -> str:
    s3 = boto3.client("s3", endpoint_url=s3_server)
    id = s3.create_multipart_upload(Bucket=bucket[5:], Key=key)["UploadId"]
    s3.upload_part(Bucket=bucket[5:], Key=key, UploadId=id, PartNumber=1, Body=b"x" * 100)
    return str(id)


def unfinished(bucket: str, s3_server: str) -> list[str]:
    s3 = boto3.client("s3", endpoint_url=s3_server)
    return sorted(each["Key"] for each in s3.list_multipart_uploads(Bucket=bucket[5:]).get("Uploads", []))


def is_about_uploads(request: Request) -> bool:
    return request.method == "GET" and "uploads=" in request.target


def begun(seconds_ago: float) -> Fault:
    """The store's own answer, with uploads begun so long ago."""
    then = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - seconds_ago)).encode()

    def tell(request: Request, passing: Passing) -> Answer:
        answer = passing(request)
        body = re.sub(rb"<Initiated>.*?</Initiated>", b"<Initiated>" + then + b"</Initiated>", answer.body)
        return Answer(answer.status, answer.headers, body)

    return only(is_about_uploads, tell)


def test_old_ones_below_the_root_are_ended(bucket: str, state: Path, s3_server: str, proxy: Proxy) -> None:
    put_all(f"{bucket}/tiny", step_keys(range(1, 3)))
    begin(bucket, s3_server, "tiny/step_0003.pt")
    begin(bucket, s3_server, "tinier/step_0003.pt")
    proxy.fault = begun(10 * 86400)

    plan = planned(run_on(f"{bucket}/tiny"), state)
    outcome = applied(run_on(f"{bucket}/tiny"), state)

    assert [(orphan.path.partition("?")[0], orphan.decision) for orphan in plan.orphans] == [
        ("step_0003.pt", Decision.DELETE)
    ]
    assert [path.partition("?")[0] for _, path, _ in outcome.orphans_deleted] == ["step_0003.pt"]
    assert unfinished(bucket, s3_server) == ["tinier/step_0003.pt"]


def test_fresh_ones_stay(bucket: str, state: Path, s3_server: str, proxy: Proxy) -> None:
    put_all(bucket, step_keys(range(1, 3)))
    begin(bucket, s3_server, "step_0003.pt")
    proxy.fault = begun(3600)
    plan = planned(run_on(bucket), state)
    applied(run_on(bucket), state)

    assert [orphan.reason for orphan in plan.orphans] == ["younger-than-1d"]
    assert unfinished(bucket, s3_server) == ["step_0003.pt"]


@pytest.mark.parametrize("fault", [refuse(403, "AccessDenied"), lambda request, passing: Answer(200, [], b"<x")])
def test_where_they_cannot_be_listed_it_is_told_and_blocks_nothing(
    bucket: str, state: Path, proxy: Proxy, fault: object
) -> None:
    put_all(bucket, step_keys(range(1, 8)))
    proxy.fault = only(is_about_uploads, fault)  # type: ignore[arg-type]

    outcome = applied(run_on(bucket), state)

    assert len(outcome.deleted) == 4
    assert "uploads" in {note.kind for note in outcome.attention}


def test_keys_come_from_the_environment_or_a_profile_and_are_never_shown(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = one\naws_secret_access_key = hidden-1\n"
        "[work]\naws_access_key_id = two\naws_secret_access_key = hidden-2\naws_session_token = hidden-3\n"
    )
    (tmp_path / "config").write_text("[default]\nregion = eu-central-1\n[profile work]\nregion = eu-north-1\n")
    files = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"), "AWS_CONFIG_FILE": str(tmp_path / "config")}

    default, work = static_keys(files), static_keys(files | {"AWS_PROFILE": "work"})
    own = static_keys(files | {"AWS_ACCESS_KEY_ID": "three", "AWS_SECRET_ACCESS_KEY": "hidden-4"})
    role = static_keys({**files, "AWS_WEB_IDENTITY_TOKEN_FILE": "/token"})

    assert default is not None
    assert work is not None
    assert own is not None
    assert [(keys.id, keys.region) for keys in (default, work, own)] == [
        ("one", "eu-central-1"), ("two", "eu-north-1"), ("three", "eu-central-1")
    ]  # fmt: skip
    assert role is None
    assert "hidden" not in repr((default, work, own))
    assert s3_options({**files, "AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}) == {"config": {"region": "eu-central-1"}}
