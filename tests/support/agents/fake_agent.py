"""A stand-in for an agent CLI: it parses its options as its original does, notes down how it was
called, and plays the steps that a test wrote for it. It calls no model.

It is copied to a folder on PATH under the names of the originals. Beside it lie `NAME.plan.json`
(a list of steps for each start, the last one for all further) and `NAME.calls.jsonl`.
"""

import json
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = os.path.basename(__file__)


def parse(arguments):
    """Return (prompt, folder that the CLI works in), or end as the original does."""
    valued = {
        "codex": {"-C"},
        "claude": {"--permission-mode", "--output-format"},
        "agy": {"--model", "--add-dir", "--output-format", "--print-timeout", "-p"},
        "gemini": {"--output-format", "--approval-mode", "-p"},
        "grok": {"--cwd", "--output-format", "-p"},
    }[NAME]
    switches = {
        "codex": {
            "--json",
            "--dangerously-bypass-approvals-and-sandbox",
            "--skip-git-repo-check",
        },
        "claude": {"-p", "--verbose"},
        "agy": set(),
        "gemini": {"--skip-trust"},
        "grok": {"--disable-web-search", "--always-approve"},
    }[NAME]
    options, rest, queue = {}, [], list(arguments)
    while queue:
        word = queue.pop(0)
        name, equals, bound = word.partition("=")
        if word == "--" and NAME == "claude":
            rest += queue
            break
        if word in switches:
            options[word] = True
        elif equals and name in valued:
            options[name] = bound
        elif word in valued:
            if not queue or queue[0].startswith("-"):
                sys.exit(f"error: a value is required for '{word}'")
            options[word] = queue.pop(0)
        elif word.startswith("-") and word != "-":
            sys.exit(f"error: unknown option '{word}'")
        else:
            rest.append(word)
    return options, rest


def find_place(options):
    """Return where relative paths land: only claude, gemini and grok honour the directory they
    were started in."""
    home = os.path.expanduser("~")
    if NAME == "codex":
        return options.get("-C", os.path.join(home, "last-codex-folder"))
    if NAME == "agy":
        return options.get("--add-dir", os.path.join(home, ".gemini/antigravity-cli/scratch"))
    return options.get("--cwd", os.getcwd())


def prompt_of(options, rest):
    if NAME == "codex":
        return sys.stdin.buffer.read().decode("utf-8")
    if NAME == "claude":
        return rest[0] if rest else sys.stdin.read()
    return options.get("-p", "")


def emit(value):
    sys.stdout.write((value if isinstance(value, str) else json.dumps(value)) + "\n")
    sys.stdout.flush()


def say(text):
    """Print `text` as the agent's words, in the shape of the original's stream."""
    emit(
        {
            "codex": {
                "type": "item.completed",
                "item": {"id": "item_1", "type": "agent_message", "text": text},
            },
            "claude": {
                "type": "assistant",
                "message": {"role": "assistant", "content": [{"type": "text", "text": text}]},
            },
            "agy": {"type": "step_update", "step_type": "agent_response", "text": text},
            "gemini": {"type": "message", "role": "assistant", "content": text, "delta": True},
            "grok": {"type": "text", "data": text},
        }[NAME]
    )


def begin():
    emit(
        {
            "codex": {"type": "thread.started", "thread_id": "session-codex"},
            "claude": {"type": "system", "subtype": "init", "session_id": "session-claude"},
            "agy": {"type": "init", "conversation_id": "session-agy"},
            "gemini": {"type": "init", "session_id": "session-gemini"},
            "grok": {"type": "available_commands", "tools": []},
        }[NAME]
    )


def end(text=""):
    emit(
        {
            "codex": {"type": "turn.completed", "usage": {"input_tokens": 1}},
            "claude": {
                "type": "result",
                "subtype": "success",
                "is_error": False,
                "result": text,
                "permission_denials": [],
            },
            "agy": {"type": "result", "status": "SUCCESS", "response": text},
            "gemini": {"type": "result", "status": "success", "stats": {}},
            "grok": {"type": "end", "stopReason": "end_turn", "sessionId": "session-grok"},
        }[NAME]
    )


def write(place, name, text):
    path = os.path.join(place, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def commit(place, message):
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    for command in (["add", "-A"], [*who, "commit", "-q", "-m", message]):
        if os.spawnvp(os.P_WAIT, "git", ["git", "-C", place, *command]):
            sys.exit("git failed")


def leave_behind():
    """Leave a grandchild in a session of its own that writes its pid and stays."""
    code = "import os,sys,time;os.setsid();open(sys.argv[1],'w').write(str(os.getpid()));"
    code += "time.sleep(600)"
    target = os.path.join(HERE, "left-behind.pid")
    os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-I", "-c", code, target])
    while not (os.path.exists(target) and os.path.getsize(target)):
        time.sleep(0.01)


def hang(signal_file):
    with open(signal_file, "w") as file:
        file.write(str(os.getpid()))
    while True:
        time.sleep(60)


def flood(text, size):
    chunk = text * 65536
    for _ in range(size // len(chunk)):
        sys.stdout.write(chunk)
    sys.stdout.write("\n")


def leave(number):
    sys.stdout.flush()
    sys.exit(number)


def die(name):
    sys.stdout.flush()
    os.kill(os.getpid(), getattr(signal, name))


def raw(digits):
    sys.stdout.flush()
    os.write(1, bytes.fromhex(digits))


STEPS = {
    "print": emit,
    "flood": flood,
    "raw": raw,
    "err": lambda text: sys.stderr.write(text + "\n"),
    "say": say,
    "end": end,
    "exit": leave,
    "die": die,
    "hang": lambda: hang(os.path.join(HERE, "hanging.pid")),
    "leave behind": leave_behind,
    "remove": os.unlink,
}
STEPS_IN_PLACE = {"write": write, "commit": commit}


def play(step, place):
    """Play one step: a list whose first word names it."""
    verb, *values = step
    if verb in STEPS_IN_PLACE:
        STEPS_IN_PLACE[verb](place, *values)
    else:
        STEPS[verb](*values)


def earlier_calls(path):
    if not os.path.exists(path):
        return 0
    with open(path, encoding="utf-8") as file:
        return sum(1 for _ in file)


def main():
    calls = os.path.join(HERE, f"{NAME}.calls.jsonl")
    number = earlier_calls(calls)
    options, rest = parse(sys.argv[1:])
    place = find_place(options)
    stdin_open = NAME != "codex" and bool(sys.stdin and sys.stdin.read(1))
    prompt = prompt_of(options, rest)
    call = {
        "argv": sys.argv[1:],
        "prompt": prompt,
        "cwd": os.getcwd(),
        "place": place,
        "env": dict(os.environ),
        "stdin_had_bytes": stdin_open,
        "pid": os.getpid(),
    }
    with open(calls, "a", encoding="utf-8") as file:
        file.write(json.dumps(call) + "\n")
    with open(os.path.join(HERE, f"{NAME}.plan.json"), encoding="utf-8") as file:
        plan = json.load(file)
    begin()
    for step in plan[min(number, len(plan) - 1)]:
        play(step, place)


main()
