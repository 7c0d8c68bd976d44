"""Runs as a small program of its own: drops root, asks for a signal when the launcher ends, becomes another program.

It stands between `fork` and `exec`, where a process with threads may not run Python. It is started by path with
`python -I -S`, as the launcher's own account: another one may be unable to, since Python itself can be below /root.

    trampoline.py LAUNCHER_PID SIGNAL UID GID PROGRAM [ARGUMENT …]      UID -1: keep the account
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1  # prctl(2)


def main(arguments: list[str]) -> None:
    """Become the program that `arguments` name; return only by an exception."""
    launcher, death_signal, uid, gid = (int(word) for word in arguments[:4])
    command = arguments[4:]
    os.umask(0o077)
    if uid >= 0:
        drop_privileges(uid, gid)
    # After the change of account: that clears the signal.
    request_death_signal(death_signal)
    if os.getppid() != launcher:
        sys.exit("the launcher ended before its program began")
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


def drop_privileges(uid: int, gid: int) -> None:
    """Become the account `uid`, for good."""
    try:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    except OSError as error:
        sys.exit(f"root cannot become uid {uid} here ({error.strerror}): start as an ordinary user")


def request_death_signal(number: int) -> None:
    """Ask Linux for a signal when the launcher's thread ends; elsewhere the next start deals with what is left."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
