"""Whose keys a store is asked with: the environment's usual chain. Nothing of it is ever logged or kept on disk."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_IN_ENVIRONMENT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)


@dataclass(frozen=True)
class Keys:
    """Keys to sign a request with. Never shown."""

    id: str = field(repr=False)
    secret: str = field(repr=False)
    token: str | None = field(repr=False)
    region: str


def static_keys(environment: Mapping[str, str] | None = None) -> Keys | None:
    """The keys of the environment or of a profile; None where a role or a service hands them out."""
    said = os.environ if environment is None else environment
    options = s3_options(said)
    config = options["config"]
    region = said.get("AWS_REGION") or said.get("AWS_DEFAULT_REGION") or config.get("region") or "us-east-1"
    if "AWS_ACCESS_KEY_ID" in said and "AWS_SECRET_ACCESS_KEY" in said:
        token = said.get("AWS_SESSION_TOKEN") or said.get("AWS_TOKEN")
        return Keys(said["AWS_ACCESS_KEY_ID"], said["AWS_SECRET_ACCESS_KEY"], token, region)
    if "access_key_id" in config:
        return Keys(config["access_key_id"], config["secret_access_key"], config.get("session_token"), region)
    return None


def s3_options(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What the S3 client must be told beyond what it reads from variables itself.

    It knows static keys, web identity, containers and instance roles, but no ``~/.aws``: the profile there
    (``AWS_PROFILE``, else ``default``) is read here. Profiles that need more than static keys (SSO, a process, a
    role to assume) are left to boto3 where it is installed.
    """
    said = os.environ if environment is None else environment
    found: dict[str, Any] = {}
    profile = said.get("AWS_PROFILE", "default")
    settings = _section(said.get("AWS_CONFIG_FILE", "~/.aws/config"), profile, f"profile {profile}")
    if "region" in settings and not ({"AWS_REGION", "AWS_DEFAULT_REGION"} & set(said)):
        found["region"] = settings["region"]
    if any(name in said for name in _IN_ENVIRONMENT):
        return {"config": found}
    keys = _section(said.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"), profile) or settings
    if "aws_access_key_id" in keys and "aws_secret_access_key" in keys:
        found["access_key_id"] = keys["aws_access_key_id"]
        found["secret_access_key"] = keys["aws_secret_access_key"]
        if "aws_session_token" in keys:
            found["session_token"] = keys["aws_session_token"]
        return {"config": found}
    if "AWS_PROFILE" in said or settings.keys() & {"sso_session", "sso_start_url", "credential_process", "role_arn"}:
        return {"config": found, **_by_boto3()}
    return {"config": found}


def gcs_options(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """An emulator named by ``STORAGE_EMULATOR_HOST``, as Google's own clients take it; else the usual chain."""
    import json

    said = os.environ if environment is None else environment
    host = said.get("STORAGE_EMULATOR_HOST")
    if not host:
        return {}
    base = host if "://" in host else f"http://{host}"
    key = {"gcs_base_url": base, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    return {"config": {"service_account_key": json.dumps(key)}}


def _section(path: str, *names: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(os.path.expanduser(path), encoding="utf-8")
    except (OSError, configparser.Error, UnicodeDecodeError):
        return {}
    return next((dict(parser[name]) for name in names if parser.has_section(name)), {})


def _by_boto3() -> dict[str, Any]:
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        return {}
    try:
        return {"credential_provider": Boto3CredentialProvider()}
    except ValueError:
        return {}
