"""What the scripted model does: a list of moves for each scenario, the next one chosen by what the
conversation already holds. Pure; no scenario remembers anything between two requests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from tests.support.model.conversation import Conversation

HEAD, TAIL = "⟦", "⟧"  # around what an echo measures; nothing a CLI adds holds them
NAP = "97531"  # seconds: nobody else on a machine sleeps so long, so a survivor is found by it
MENDED = "def add(a, b):\n    return a + b\n"


@dataclass(frozen=True)
class Say:
    """End the turn with a text."""

    text: str


@dataclass(frozen=True)
class Write:
    """Make a file of the worktree, or one at an absolute path."""

    name: str
    text: str


@dataclass(frozen=True)
class Read:
    """Look at a file: some tools change only what was read before."""

    name: str


@dataclass(frozen=True)
class Edit:
    """Replace one line of a file."""

    name: str
    old: str
    new: str


@dataclass(frozen=True)
class Shell:
    """Run a command."""

    command: str


@dataclass(frozen=True)
class Echo:
    """Say what of the prompt arrived: its size, its digest, and whether anything was added."""


@dataclass(frozen=True)
class Silence:
    """Take the request and never answer; `begun` answers half first, `cut` then hangs up."""

    begun: bool = False
    cut: bool = False


@dataclass(frozen=True)
class Refuse:
    """Answer with an error of the API, named as in `faults`."""

    fault: str


Move = Say | Write | Read | Edit | Shell | Echo | Silence | Refuse

_BACKGROUND = f"setsid sleep {NAP} >/dev/null 2>&1 </dev/null & echo started"
# Not `sleep`, which one CLI refuses to wait for; others go on without the tool after some seconds,
# and then meet a model that says nothing.
_LONG = f"python3 -c 'import time; time.sleep({NAP})'"
_WISH = 'python3 -c \'open("denied.txt", "w").write("x")\''  # nothing that a list allows
_COMMIT = (
    "printf 'kept\\n' > kept.txt && git add kept.txt && "
    "git -c user.name=Agent -c user.email=agent@example.invalid commit -q -m 'Keep it' && echo done"
)


def scenarios(outside: str) -> dict[str, tuple[Move, ...]]:
    """Return every scenario. `outside` is a folder beyond every worktree, for writes to refuse."""
    return {
        "write": (Write("hello.txt", "hello from the model\n"), Say("Wrote hello.txt.")),
        "mend": (
            Read("calc.py"),
            Edit("calc.py", "return a - b", "return a + b"),
            Say("calc.add subtracted; it adds now."),
        ),
        "commit": (Shell(_COMMIT), Say("Committed kept.txt.")),
        "talk": (Say("Nothing to do."),),
        "echo": (Echo(),),
        "denied": (Shell(_WISH), Say("The command was not run.")),
        "outside": (Write(f"{outside}/file.txt", "x\n"), Say("Wrote outside.")),
        "outside-shell": (
            Shell(f"mkdir -p {outside} && echo $$ >> {outside}/shell.txt; echo tried"),
            Say("Tried to write outside."),
        ),
        "background": (
            Write("hello.txt", "hello\n"),
            Shell(_BACKGROUND),
            Say("Something runs on."),
        ),
        "long-tool": (Shell(_LONG), Silence()),
        "hang": (Silence(),),
        "stall": (Silence(begun=True),),
        "drop": (Silence(begun=True, cut=True),),
        "rate-limit": (Refuse("rate-limit"),),
        "usage-limit": (Refuse("usage-limit"),),
        "unauthorized": (Refuse("unauthorized"),),
        "server-error": (Refuse("server-error"),),
        "overloaded": (Refuse("overloaded"),),
        "context-full": (Refuse("context-full"),),
    }


def next_move(moves: tuple[Move, ...], conversation: Conversation) -> Move:
    """Return what follows after the tools that the conversation has answers of.

    A request without tools asks for a title or a summary: it gets two words. A refusal or a
    silence meets every request, that one too.
    """
    first = moves[0]
    if isinstance(first, Refuse | Silence) and not (
        isinstance(first, Silence) and not conversation.tools
    ):
        return first
    if not conversation.tools:
        return Say("Short title")
    move = moves[min(conversation.answered, len(moves) - 1)]
    return Say(measure(conversation.asked)) if isinstance(move, Echo) else move


def measure(texts: tuple[str, ...]) -> str:
    """Return size and digest of the prompt among `texts`, and whether it stands there alone."""
    for text in texts:
        tail = text.rfind(TAIL)
        if tail < 0 or HEAD not in text:
            continue
        head = text.index(HEAD)
        head -= text[max(0, head - 1) : head] == "-"
        prompt = text[head : tail + 1]
        data = prompt.encode("utf-8", "surrogatepass")
        alone = "alone" if text == prompt else "wrapped"
        return f"received {len(data)} bytes sha256 {hashlib.sha256(data).hexdigest()} {alone}"
    return "received no prompt"
