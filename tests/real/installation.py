"""The four real CLIs, installed from npm into a cache folder at the versions of `clis/`.

The lock file there holds a digest of every package, npm refuses what does not match, and what was
installed is held against it once more. (`npm ci` wants every optional package of every platform in
the lock, and not all of them are published; so it is `npm install` with the lock in place.) Install
scripts of packages are not run, but for the two that only unpack the CLI itself. A folder whose
lock is the same one is used again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

PINS = Path(__file__).resolve().with_name("clis")
DISK_BYTES = 3 * 1024**3  # 1.3 GB of packages, npm's own cache of them, and the runs
NODE_MAJOR = 20
_PACKAGES = {
    "codex": "@openai/codex",
    "claude": "@anthropic-ai/claude-code",
    "gemini": "@google/gemini-cli",
    "grok": "@xai-official/grok",
}
_UNPACKERS = {"claude": "install.cjs", "grok": "bin/postinstall.js"}
_OUT_OF_REACH = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH")  # npm's own
_INSTALL_S = 600.0
_LOOK_S = 60.0
_READY = "ready.json"


class CannotInstall(Exception):
    """What is missing on this machine, in words."""


class OutOfReach(CannotInstall):
    """This machine has no way to the registry."""


@dataclass(frozen=True)
class Installation:
    """Where the CLIs are (`programs`, a folder for PATH) and agent -> the version each told."""

    programs: Path
    versions: dict[str, str]


def pinned() -> dict[str, str]:
    """Return agent -> the version that is asked for."""
    wanted = json.loads((PINS / "package.json").read_text())["dependencies"]
    return {agent: wanted[package] for agent, package in _PACKAGES.items()}


def cache_folder() -> Path:
    """Return where everything of these runs is kept: outside of the project, below the
    user's cache, or where REAL_CLIS_CACHE leads."""
    named = os.environ.get("REAL_CLIS_CACHE")
    below = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else below / "fleet-dispatch-real-clis"


def find_obstacle(cache: Path) -> str:
    """Return why nothing can be installed here; "" when node, npm and the disk are there."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    told = _run(["node", "--version"], _LOOK_S).stdout.strip()
    if int(told.lstrip("v").partition(".")[0] or 0) < NODE_MAJOR:
        return f"node is {told}, and {NODE_MAJOR} or newer is needed"
    if _is_ready(_folder(cache)):
        return ""
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free
    return "" if free >= DISK_BYTES else f"{free // 1024**2} MiB are free, 3 GiB are needed"


def install(cache: Path) -> Installation:
    """Return the installed CLIs, installing them when they are not there.

    Raises CannotInstall when the registry is out of reach, a digest differs, or npm fails.
    """
    folder = _folder(cache)
    if not _is_ready(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(PINS / name, folder / name)
        words = ["npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = _run([*words, "--loglevel=error"], _INSTALL_S, cwd=folder)
        if any(word in done.stderr for word in _OUT_OF_REACH):
            raise OutOfReach("the registry is out of reach")
        if done.returncode != 0:
            raise CannotInstall(f"npm exited {done.returncode}: {done.stderr.strip()[-1_500:]}")
        _hold_against_lock(folder)
        _unpack(folder)
        (folder / _READY).write_text(json.dumps(_ask_versions(folder)))
    for other in cache.glob("npm-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    return Installation(_programs(folder), json.loads((folder / _READY).read_text()))


def _folder(cache: Path) -> Path:
    digest = hashlib.sha256((PINS / "package-lock.json").read_bytes()).hexdigest()
    return cache / f"npm-{digest[:16]}"


def _programs(folder: Path) -> Path:
    return folder / "node_modules" / ".bin"


def _is_ready(folder: Path) -> bool:
    return (folder / _READY).is_file()


def _hold_against_lock(folder: Path) -> None:
    """Raise CannotInstall unless everything that is there stands, with its digest, in the lock."""
    lock = json.loads((PINS / "package-lock.json").read_text())["packages"]
    there = json.loads((folder / "node_modules" / ".package-lock.json").read_text())["packages"]
    for name, package in there.items():
        wanted = lock.get(name, {}).get("integrity")
        if wanted is None or package.get("integrity") != wanted:
            raise CannotInstall(f"{name} is not the package of the lock")


def _unpack(folder: Path) -> None:
    """Run the two scripts that put a CLI's own program in its place."""
    for agent, script in _UNPACKERS.items():
        package = folder / "node_modules" / _PACKAGES[agent]
        home = folder / "unpacked" / agent
        home.mkdir(parents=True)
        # grok's puts its program in place for npm alone, and else unpacks it again in every home.
        given = {"HOME": str(home), "GROK_HOME": str(home), "npm_config_user_agent": "npm/0"}
        done = _run(["node", script], _INSTALL_S, cwd=package, **given)
        if done.returncode != 0:
            raise CannotInstall(f"{agent} could not be unpacked: {done.stderr.strip()[-1_500:]}")
        shutil.rmtree(home, ignore_errors=True)


def _ask_versions(folder: Path) -> dict[str, str]:
    """Return what each CLI says of itself, which must hold the pinned version."""
    told, home = {}, folder / "unpacked" / "asked"
    home.mkdir(parents=True)
    for agent, wanted in pinned().items():
        program = str(_programs(folder) / agent)
        given = {"HOME": str(home), "GROK_HOME": str(home / ".grok"), "DISABLE_AUTOUPDATER": "1"}
        done = _run([program, "--version"], _LOOK_S, cwd=home, **given)
        said = f"{done.stdout} {done.stderr}".strip()
        if wanted not in said:
            raise CannotInstall(f"{agent} is to be {wanted} and says: {said[:300]}")
        told[agent] = wanted
    shutil.rmtree(home, ignore_errors=True)
    return told


def _run(
    words: list[str], seconds: float, *, cwd: Path | None = None, **given: str
) -> subprocess.CompletedProcess[str]:
    """Run a program with little more than where things are: no login and no key of anybody."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    kept += ("http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    npm = {name: value for name, value in os.environ.items() if name.startswith("npm_config_")}
    return subprocess.run(
        words,
        cwd=cwd,
        env={**environment, **npm, **given},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
