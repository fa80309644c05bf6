"""Every number of the wire, with its source. Pure values; nothing here decides anything."""

from __future__ import annotations

from typing import Final

# The agent process's own limit: clamped, not refused (the contract's table of request fields).
TIMEOUT_MIN_S: Final = 60
TIMEOUT_MAX_S: Final = 14_400
TIMEOUT_DEFAULT_S: Final = 1_200
SHELL_TIMEOUT_MIN_S: Final = 1  # a command is no agent: a probe may be over within a second

# Windows' command line ends at 32 767 characters; every agent but codex takes the prompt as one
# argument, so the contract refuses a larger task for them. Bytes of UTF-8, not characters.
ARGV_TASK_MAX_BYTES: Final = 28_000

# Part of a branch name and of a path.
TICKET_MAX_CHARS: Final = 64
REF_MAX_BYTES: Final = (
    200  # a loose ref is a file name: 255 bytes on common filesystems, less ".lock"
)
MODE_MAX_CHARS: Final = 64
PATH_MAX_CHARS: Final = 4_096  # PATH_MAX on Linux
COMMAND_MAX_BYTES: Final = (
    65_536  # under the 128 KiB that Linux allows one argument (MAX_ARG_STRLEN)
)

# One inner payload. A 4 MiB brief for codex passes the whole queue; the bound keeps a listener's
# memory flat whatever is written to Redis.
PAYLOAD_MAX_BYTES: Final = 16 * 1024 * 1024
# base64 is 4/3, plus outer keys and up to four signatures.
ENVELOPE_MAX_BYTES: Final = PAYLOAD_MAX_BYTES * 4 // 3 + 8_192
# RQ keeps the envelope inside a JSON list which zlib packs; random base64 packs to 3/4 or more.
STORED_JOB_MAX_BYTES: Final = ENVELOPE_MAX_BYTES + 65_536
SIGNATURES_MAX: Final = 4
JSON_DEPTH_MAX: Final = 16
# Strings, brackets and commas of one document. 16 MiB of "[],[],…" would become half a gigabyte of
# small objects; a job of ours has some dozens.
JSON_PARTS_MAX: Final = 100_000
JSON_INT_MAX: Final = 2**53 - 1  # what a double holds exactly: other languages read the same number

# The contract: the last 1 MB of each stream is kept.
TAIL_BYTES: Final = 1024 * 1024

# The result is always whole JSON, so what can grow is cut at a stated length.
SUMMARY_MAX_CHARS: Final = 8_000
LIST_MAX_ITEMS: Final = 2_000
LIST_MAX_BYTES: Final = 256 * 1024
RISK_MAX_CHARS: Final = 1_000
RISKS_MAX_ITEMS: Final = 100
# What a plain result keeps of each stream: with every character escaped, both and the rest stay
# below RESULT_MAX_BYTES.
PLAIN_TAIL_CHARS: Final = 64 * 1024
RESULT_MAX_BYTES: Final = 1024 * 1024  # "result < 1 MiB" under a tree of 100,000 files

# Clock differences between machines that are accepted, and how long a signed job lives at most.
SKEW_S: Final = 120
JOB_TTL_DEFAULT_S: Final = 24 * 3_600
JOB_TTL_MAX_S: Final = 7 * 24 * 3_600
RESULT_TTL_S: Final = 7 * 24 * 3_600  # results are kept 7 days

# A cancel holds as long as its job may come from somewhere; a question is asked anew each time.
CANCEL_TTL_MAX_S: Final = JOB_TTL_MAX_S
ASK_TTL_MAX_S: Final = 300
WHY_MAX_CHARS: Final = 300  # one sentence
# Names, times, a sentence and one digest: some hundred bytes, and as many again for each signature.
CONTROL_MAX_BYTES: Final = 16 * 1024

# A heartbeat every 3 s with a life of 10 s shows a silent host within 15 s.
HEARTBEAT_EVERY_S: Final = 3
HEARTBEAT_TTL_S: Final = 10

# Events. A tool call's input is cut at this many characters, and a text at what a summary may draw
# from. A log has room for a day of an agent that prints an event of 1 KB each second; the stream of
# a job holds its last 8 MiB at most, what is older is asked for.
EVENT_INPUT_MAX_CHARS: Final = 2_000
EVENT_TEXT_MAX_CHARS: Final = 16_000
EVENTS_LOG_MAX_BYTES: Final = 64 * 1024 * 1024
EVENTS_BATCH_MAX_BYTES: Final = 64 * 1024
EVENTS_STREAM_MAX_BATCHES: Final = 96
EVENTS_STREAM_TTL_S: Final = 24 * 3_600

# A host's word about a message: one line for people. At the broker stand the newest ones of each
# job, a few hundred bytes each, as long as a result does.
DELIVERY_NOTE_MAX_CHARS: Final = 500
DELIVERIES_KEPT_MAX: Final = 64
DELIVERY_MAX_BYTES: Final = 8_192
DELIVERY_TTL_S: Final = RESULT_TTL_S

# The governor. Subscriptions count over hours to a week, keys over a month at most; a limit that an
# agent reports lasts a week at most, so that a false report ends with that.
POOL_WINDOW_MIN_S: Final = 1
POOL_WINDOW_MAX_S: Final = 31 * 24 * 3_600
POOL_CLOSED_MAX_S: Final = 7 * 24 * 3_600
POOL_LIMITS_MAX: Final = 16  # of one pool: three units over a few windows
POOL_BOOKINGS_MAX: Final = 20_000  # a start every two minutes for a month; looked at in one script
POOL_LEASE_DEFAULT_S: Final = 60  # renewed three times in it; what a killed run held is back then

# One job at a host's HTTP door. A brief of 4 MiB is 6 MB in its envelope; checking one takes some
# six copies of it, and a listener stays below 150 MB whatever is posted. What is larger goes over a
# queue.
HTTP_JOB_MAX_BYTES: Final = 8 * 1024 * 1024

# How far ahead a sender may set the end of waiting for a job of its own: four times the longest
# life of a job. Beyond is a slip.
GIVE_UP_MAX_S: Final = 30 * 86_400
