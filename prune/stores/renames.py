"""Renames that rename(2) alone cannot make: never replacing, or swapping two names."""

from __future__ import annotations

import errno
import os
import stat as modes

NOREPLACE = 1
EXCHANGE = 2


def rename_new_at(src: int, old: str, dst: int, new: str) -> None:
    """Renames and never replaces: RENAME_NOREPLACE, else link and unlink for a file, a look before for a directory.

    NFS, Lustre, Ceph and many FUSE file systems know no RENAME_NOREPLACE. Raises FileExistsError when the target is
    there.
    """
    try:
        renameat2(src, old, dst, new, NOREPLACE)
        return
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise
    if modes.S_ISDIR(os.stat(old, dir_fd=src, follow_symlinks=False).st_mode):
        _rename_directory(src, old, dst, new)
    else:
        os.link(old, new, src_dir_fd=src, dst_dir_fd=dst, follow_symlinks=False)
        os.unlink(old, dir_fd=src)


def _rename_directory(src: int, old: str, dst: int, new: str) -> None:
    """Renames a directory where rename(2) is all there is. Raises FileExistsError when the target is there.

    rename(2) itself refuses to replace a file, a link, or a directory with anything in it: all that could be replaced
    is an empty directory made since the look, and with it nothing is lost.
    """
    try:
        os.stat(new, dir_fd=dst, follow_symlinks=False)
    except FileNotFoundError:
        try:
            os.rename(old, new, src_dir_fd=src, dst_dir_fd=dst)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new) from error
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)


def renameat2(src: int, old: str, dst: int, new: str, flags: int) -> None:
    """renameat2(2), which Python has no name for."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), old)
    if libc.renameat2(src, os.fsencode(old), dst, os.fsencode(new), flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), old, None, new)
