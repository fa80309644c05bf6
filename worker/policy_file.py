"""The policy of this host as it stands now: taken in again whenever its file has changed.

Looked at when a job is decided about and with every heartbeat, so that a change needs no restart. A
file that cannot be taken (not TOML, an unknown key, readable by others) leaves the rules as they
were; a file that is gone leaves none: whoever takes it away takes the rights away. Says each of
these once.
"""

from __future__ import annotations

import threading
from typing import Final, Protocol

from contracts.clock import Clock
from contracts.errors import Refused
from validation.policy import HostPolicy
from worker.announcer import Say
from worker.settings import HostSettings, load_policy

# Editors take a file away before they put the new one in its place: for so long it is looked for.
_LOOKS: Final = 4
_PAUSE_S: Final = 0.1

_Stamp = tuple[int, ...]


class Policies(Protocol):
    """Where a decision finds the rules of this moment."""

    def current(self) -> HostPolicy:
        """Return the policy that holds now, its roots resolved."""
        ...


class PolicyFile:
    """The policy file of one listener; safe to share between threads."""

    def __init__(self, settings: HostSettings, clock: Clock, say: Say) -> None:
        """Read it. Raises Refused (code `policy`) when that is not possible: a host that never had
        a policy serves nobody."""
        self._settings = settings
        self._clock = clock
        self._say = say
        self._lock = threading.Lock()
        self._never = threading.Event()
        self._trouble = ""
        self._stamp = self._look()
        self._held = load_policy(settings)

    def current(self) -> HostPolicy:
        """See Policies.current. Never raises for what stands in the file."""
        with self._lock:
            self._take_in()
            return self._held

    def trouble(self) -> str:
        """Return what is wrong with the file, "" when it is what holds."""
        with self._lock:
            self._take_in()
            return self._trouble

    def _take_in(self) -> None:
        stamp = self._look()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        if not stamp:
            self._held = HostPolicy()
            self._tell("policy_gone", f"{self._settings.policy_file} is gone: nothing is allowed")
            return
        try:
            self._held = load_policy(self._settings)
        except Refused as error:
            self._tell("policy_not_taken", f"the earlier policy holds: {error}")
            return
        self._trouble = ""
        self._say("policy_taken", senders=len(self._held.senders))

    def _tell(self, what: str, trouble: str) -> None:
        self._trouble = trouble
        self._say(what, reason=trouble)

    def _look(self) -> _Stamp:
        """Return what changes with the file's content, name and rights; () when there is none."""
        for _ in range(_LOOKS):
            try:
                found = self._settings.policy_file.stat()
            except FileNotFoundError:
                self._clock.wait(self._never, _PAUSE_S)
                continue
            except OSError as error:
                return (error.errno or -1,)
            times = (found.st_mtime_ns, found.st_ctime_ns)
            return (*times, found.st_ino, found.st_size, found.st_mode, found.st_uid)
        return ()
