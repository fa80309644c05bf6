"""Which sandbox this host uses: what its configuration names, or the best that works here.

Owns the order (bubblewrap, Landlock, none; on macOS sandbox-exec, none) and the refusal of a named
one that does not work. Each candidate is tried with a canary first; nothing is taken on trust.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from contracts.errors import Unavailable
from contracts.sandbox import SandboxMode
from runagent import _landlock
from runagent._walls import Walls
from runagent.environment import interpreter_environment
from runagent.process import ProcessRunner, ProcessSpec
from runagent.sandbox import bubblewrap, proof, seatbelt
from runagent.sandbox.bubblewrap import Bubblewrap
from runagent.sandbox.landlock import Landlock
from runagent.sandbox.masks import Private
from runagent.sandbox.mounts import ground, hidden_roots, hide, is_inside, read_only, writable
from runagent.sandbox.none import NoSandbox
from runagent.sandbox.paths import carve
from runagent.sandbox.probe import Ground, Probed, probe, refuted
from runagent.sandbox.protocol import Sandbox
from runagent.sandbox.seatbelt import Seatbelt

AUTO: Final = "auto"
# Below the home; each tool's own documentation of where it keeps what it downloaded or built.
DEFAULT_CACHES: Final = (
    *(".cache", ".npm", ".yarn/berry/cache", ".local/share/pnpm", ".bun/install/cache"),
    *(".cargo/registry", ".cargo/git", "go/pkg/mod", ".nuget/packages", ".local/share/NuGet"),
    *(".gradle/caches", ".gradle/wrapper", ".m2/repository", ".ivy2/cache", "Library/Caches"),
)
_BY_PLATFORM: Final[Mapping[str, tuple[SandboxMode, ...]]] = {
    "linux": (SandboxMode.BUBBLEWRAP, SandboxMode.LANDLOCK),
    "darwin": (SandboxMode.SEATBELT,),
}
_REMEDIES: Final[Mapping[SandboxMode, str]] = {
    SandboxMode.BUBBLEWRAP: "install bubblewrap, allow unprivileged user namespaces, or set mode "
    '= "auto" under [sandbox]',
    SandboxMode.LANDLOCK: 'use a kernel with Landlock (5.13), or set mode = "auto" under [sandbox]',
    SandboxMode.SEATBELT: 'sandbox-exec is macOS\'s alone; set mode = "auto" under [sandbox]',
    SandboxMode.NONE: "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    """What a host's configuration says: `mode` (`auto` or a SandboxMode), `caches` (None: the
    usual ones, where they are there), and where our own things are."""

    mode: str
    caches: tuple[str, ...] | None
    private: Private


@dataclass(frozen=True, slots=True)
class Chosen:
    """The sandbox of this host, and what was tried on the way to it."""

    sandbox: Sandbox
    tried: tuple[Probed, ...]


def choose_sandbox(
    settings: SandboxSettings,
    runner: ProcessRunner,
    environment: Mapping[str, str],
    *,
    recalls: bool = False,
) -> Chosen:
    """Return this host's sandbox after trying it; with `recalls`, a trial of the last minutes in
    the very same circumstances will do.

    Raises Unavailable, with what to do, when the configuration names one that does not work here.
    """
    named = settings.mode != AUTO
    modes = (SandboxMode(settings.mode),) if named else candidates()
    tried: list[Probed] = []
    for mode in modes:
        if mode is SandboxMode.NONE:
            break
        key = _circumstances(mode, settings, environment)
        folder = settings.private.state_dir
        known = proof.recall(folder, mode, key) if recalls and key else None
        probed = known or try_mode(mode, settings, runner, environment)
        if key and known is None:
            proof.keep(folder, probed, key)
        tried.append(probed)
        if probed.works:
            return Chosen(_build(probed, settings, environment), tuple(tried))
        if named:
            raise Unavailable(
                f"the sandbox {mode.value} does not work here: {probed.fault}",
                remedy=_REMEDIES[mode],
            )
    return Chosen(NoSandbox(), tuple(tried))


def try_mode(
    mode: SandboxMode,
    settings: SandboxSettings,
    runner: ProcessRunner,
    environment: Mapping[str, str],
) -> Probed:
    """Try one mode on this machine and return what was seen."""
    folder = settings.private.state_dir
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        return refuted(mode, f"{folder} cannot be made: {error.strerror}")
    if mode is SandboxMode.BUBBLEWRAP:
        program = _find_bubblewrap(environment)
        if program is None:
            return refuted(mode, "bwrap is not on PATH")
        return probe(mode, _in_bubblewrap(program, environment), runner, folder)
    if mode is SandboxMode.LANDLOCK:
        if not _landlock.abi():
            return refuted(mode, "this kernel has no Landlock")
        return probe(mode, _in_landlock, runner, folder)
    if mode is SandboxMode.SEATBELT:
        if not os.path.exists(seatbelt.PROGRAM):
            return refuted(mode, f"{seatbelt.PROGRAM} is not there")
        return probe(mode, _in_seatbelt, runner, folder)
    return refuted(mode, "nothing is enforced: agents have the rights of the host's user")


def _circumstances(
    mode: SandboxMode, settings: SandboxSettings, environment: Mapping[str, str]
) -> str:
    """Return what a proof of `mode` rests on, "" for one that is always tried."""
    program = _find_bubblewrap(environment) if mode is SandboxMode.BUBBLEWRAP else None
    if program is None:
        return ""
    private = settings.private
    places = (private.config_dir, private.keys_dir, private.state_dir, *hidden_roots(environment))
    facts = (settings.mode, settings.caches, sorted(interpreter_environment().items()), places)
    return proof.circumstances(program, facts, places)


def candidates() -> tuple[SandboxMode, ...]:
    """Return the modes that this system may have, the strongest first."""
    return _BY_PLATFORM.get(sys.platform, ())


def _find_bubblewrap(environment: Mapping[str, str]) -> str | None:
    """Return its absolute path. A relative entry of PATH may lie in anybody's folder."""
    entries = environment.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(entry for entry in entries if os.path.isabs(entry))
    return shutil.which("bwrap", path=path)


def _build(probed: Probed, settings: SandboxSettings, environment: Mapping[str, str]) -> Sandbox:
    caches = DEFAULT_CACHES if settings.caches is None else settings.caches
    if probed.mode is SandboxMode.BUBBLEWRAP:
        return Bubblewrap(
            program=_find_bubblewrap(environment) or "bwrap",
            private=settings.private,
            caches=caches,
            caches_are_default=settings.caches is None,
            enforces=probed.enforces,
        )
    kind = Landlock if probed.mode is SandboxMode.LANDLOCK else Seatbelt
    return kind(
        private=settings.private,
        caches=caches,
        caches_are_default=settings.caches is None,
        enforces=probed.enforces,
    )


def _in_bubblewrap(
    program: str, environment: Mapping[str, str]
) -> Callable[[ProcessSpec, Ground], ProcessSpec]:
    def enclose(spec: ProcessSpec, place: Ground) -> ProcessSpec:
        covered = hidden_roots(environment)
        python = [sys.base_prefix, sys.prefix, os.path.dirname(sys.executable)]
        mounts = [
            *ground(place.scratch, environment),
            *(read_only(path) for path in python if is_inside(path, covered)),
            read_only(place.outside),
            writable(place.tree),
            read_only(place.guarded),
            *hide(place.door),
            *hide(place.private),
        ]
        return bubblewrap.wrap(program, mounts, spec)

    return enclose


def _in_landlock(spec: ProcessSpec, place: Ground) -> ProcessSpec:
    walls = Walls(writable=(place.tree,), readable=tuple(carve((place.private,))))
    return dataclasses.replace(spec, walls=walls)


def _in_seatbelt(spec: ProcessSpec, place: Ground) -> ProcessSpec:
    text = seatbelt.profile((place.tree,), (place.private,), (place.guarded,), (place.door,))
    return seatbelt.wrap(text, spec)
