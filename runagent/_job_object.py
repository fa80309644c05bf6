"""A Windows job object: every process in it ends when we end it, or when we die.

THIS MODULE HAS NEVER BEEN RUN ON WINDOWS; structure sizes are tested on Linux, and the calls
follow Microsoft's documentation. It must import everywhere and call nothing before it is built.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE: Final = 0x0000_2000
_EXTENDED_LIMITS: Final = 9  # JobObjectExtendedLimitInformation
_BASIC_ACCOUNTING: Final = 1  # JobObjectBasicAccountingInformation


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("PerProcessUserTimeLimit", ctypes.c_int64),
        ("PerJobUserTimeLimit", ctypes.c_int64),
        ("LimitFlags", ctypes.c_uint32),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", ctypes.c_uint32),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", ctypes.c_uint32),
        ("SchedulingClass", ctypes.c_uint32),
    )


class _ExtendedLimits(ctypes.Structure):
    _fields_ = (
        ("BasicLimitInformation", _BasicLimits),
        ("IoInfo", ctypes.c_uint64 * 6),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    )


class _Accounting(ctypes.Structure):
    _fields_ = (
        ("TotalUserTime", ctypes.c_int64),
        ("TotalKernelTime", ctypes.c_int64),
        ("ThisPeriodTotalUserTime", ctypes.c_int64),
        ("ThisPeriodTotalKernelTime", ctypes.c_int64),
        ("TotalPageFaultCount", ctypes.c_uint32),
        ("TotalProcesses", ctypes.c_uint32),
        ("ActiveProcesses", ctypes.c_uint32),
        ("TotalTerminatedProcesses", ctypes.c_uint32),
    )


class JobObject:
    """A job object with kill-on-close: when we die, the system ends all that is in it."""

    def __init__(self) -> None:
        """Create it. Raises OSError where there is no Windows or it refuses."""
        loader: Any = getattr(ctypes, "WinDLL", None)
        if loader is None:
            raise OSError("job objects exist on Windows only")
        self._kernel: Any = loader("kernel32", use_last_error=True)
        self._kernel.CreateJobObjectW.restype = ctypes.c_void_p
        self._handle: Any = ctypes.c_void_p(self._kernel.CreateJobObjectW(None, None))
        limits = _ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
        self._checked(
            self._handle.value
            and self._kernel.SetInformationJobObject(
                self._handle, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
            )
        )

    def _checked(self, answer: Any) -> None:
        if not answer:
            raise OSError("the job object could not be made, or refused a process")

    def adopt(self, process_handle: int) -> None:
        """Put a suspended process into the job, then let it run.

        NtResumeProcess resumes by process: Popen closes the handle of the first thread.
        """
        handle = ctypes.c_void_p(process_handle)
        self._checked(self._kernel.AssignProcessToJobObject(self._handle, handle))
        loader: Any = getattr(ctypes, "WinDLL")  # noqa: B009 - absent from other systems' stubs
        self._checked(loader("ntdll").NtResumeProcess(handle) == 0)

    def living(self) -> int:
        """Return how many processes of the job live."""
        counts = _Accounting()
        self._kernel.QueryInformationJobObject(
            self._handle, _BASIC_ACCOUNTING, ctypes.byref(counts), ctypes.sizeof(counts), None
        )
        return int(counts.ActiveProcesses)

    def end_all(self, code: int = 1) -> None:
        """End every process of the job at once; Windows has no TERM that a tree would hear."""
        self._kernel.TerminateJobObject(self._handle, code)

    def close(self) -> None:
        """Release the job; what still lives in it dies."""
        self._kernel.CloseHandle(self._handle)
