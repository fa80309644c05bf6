"""Every code that a risk of a result can carry: stable words for programs.

Owns the list. A risk's `code` never changes its meaning; its message may change at any time. A
reader must tolerate a code that it does not know: a newer host may have sent it. `docs/risks.md`
says of each what it means and what a person does about it; a test holds page, list and code
together. Add a member here and a line there in the same change.
"""

from __future__ import annotations

from enum import StrEnum


class RiskCode(StrEnum):
    """The codes, in the order of the page."""

    # What the agent did, or did not do.
    NO_CHANGES = "no_changes"
    IGNORED_ONLY = "ignored_only"
    CHANGE_UNDONE = "change_undone"
    RETRIED = "retried"
    AGENT_FAILED = "agent_failed"
    AGENT_NOT_STARTED = "agent_not_started"
    TURN_FAILED = "turn_failed"
    TURN_UNFINISHED = "turn_unfinished"
    PERMISSION_DENIED = "permission_denied"
    APPROVAL_ASKED = "approval_asked"
    APPROVAL_REQUIRED = "approval_required"
    LOGIN_MISSING = "login_missing"
    RATE_LIMITED = "rate_limited"
    REPORT_NOT_FOLLOWED = "report_not_followed"
    TIMED_OUT = "timed_out"
    GOVERNOR_MISSING = "governor_missing"
    TAILS_NOT_KEPT = "tails_not_kept"
    # What the tree and git looked like afterwards.
    TAMPERED = "tampered"
    BRANCH_MOVED = "branch_moved"
    BRANCH_LOST = "branch_lost"
    HEAD_DETACHED = "head_detached"
    HEAD_MOVED = "head_moved"
    HEAD_UNBORN = "head_unborn"
    HEAD_UNREADABLE = "head_unreadable"
    NESTED_REPOSITORY = "nested_repository"
    GIT_DISAGREES = "git_disagrees"
    IGNORED_BY_NEW_RULES = "ignored_by_new_rules"
    SPECIAL_FILE = "special_file"
    EVIDENCE_INCOMPLETE = "evidence_incomplete"
    EVIDENCE_MISSING = "evidence_missing"
    COULD_NOT_LOOK = "could_not_look"
    # What the worktree lacked from the start.
    SUBMODULES_EMPTY = "submodules_empty"
    LFS_POINTERS = "lfs_pointers"
    FILTER_NOT_RUN = "filter_not_run"
    # The validation.
    VALIDATION_FAILED = "validation_failed"
    VALIDATION_TIMED_OUT = "validation_timed_out"
    VALIDATION_NOT_RUN = "validation_not_run"
    VALIDATION_SKIPPED = "validation_skipped"
    VALIDATION_MASKED = "validation_masked"
    VALIDATOR_REWROTE = "validator_rewrote"
    VALIDATOR_WROTE = "validator_wrote"
    # The run itself.
    INTERRUPTED = "interrupted"
    LISTENER_LOST = "listener_lost"
    LISTENER_FAILED = "listener_failed"
    RUN_PROCESS_DIED = "run_process_died"
    INTERNAL_ERROR = "internal_error"
    NOT_JOURNALED = "not_journaled"
    TRUNCATED = "truncated"
    # The job ended for its sender without a run's own result.
    ABANDONED = "abandoned"
    EXPIRED = "expired"
    # Nothing was started: the request, the host's policy, the repository.
    INVALID_REQUEST = "invalid_request"
    POLICY_REFUSED = "policy_refused"
    KIND = "kind"
    LANE = "lane"
    LANE_JOBS = "lane_jobs"
    AGENT = "agent"
    SANDBOX = "sandbox"
    REPO_ROOT = "repo_root"
    TIMEOUT = "timeout"
    VALIDATE_COMMAND = "validate_command"
    LANE_DECLINED = "lane_declined"
    REPOSITORY_REFUSED = "repository_refused"
    REPO_MISSING = "repo_missing"
    NOT_A_REPO = "not_a_repo"
    NOT_TRUSTED = "not_trusted"
    BARE = "bare"
    NO_COMMITS = "no_commits"
    BASE_UNKNOWN = "base_unknown"
    OBJECTS_MISSING = "objects_missing"
    BRANCH_IN_USE = "branch_in_use"
    BRANCH_CONFLICT = "branch_conflict"
    WORKTREE_EXISTS = "worktree_exists"
    FOLDER_IS_LINK = "folder_is_link"
    PARENT_UNWRITABLE = "parent_unwritable"
    REPO_UNWRITABLE = "repo_unwritable"
    NO_SPACE = "no_space"
    DISK_FLOOR = "disk_floor"
    DISK_FULL = "disk_full"
    LAUNCH_REFUSED = "launch_refused"
    UNAVAILABLE = "unavailable"
    COULD_NOT_CHECK = "could_not_check"
    REFUSED = "refused"
    ENVELOPE_REFUSED = "envelope_refused"
    KEYS_REFUSED = "keys_refused"
    WAIT_TIMED_OUT = "wait_timed_out"
    ERROR = "error"
