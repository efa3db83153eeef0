# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""What a power failure leaves of recorded operations on files.

The model is pessimistic, but within what POSIX allows. Of a file, only what was there at its last
fsync is on the disk; the rest is missing, is zeros, or is there. A name, of a new file, a renamed
or a removed one, is on the disk after an fsync of its folder; until then it may or may not be, in
any combination. A rename is one operation: it is never half there.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import pathlib
from collections.abc import Iterator

Tree = dict[str, bytes | None]  # path below the root -> content, None for a folder


def tree(root: pathlib.Path) -> Tree:
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes()
        for path in root.rglob("*")
    }


def write_tree(root: pathlib.Path, content: Tree) -> None:
    for path, data in sorted(content.items()):
        if data is None:
            (root / path).mkdir(parents=True)
        else:
            (root / path).write_bytes(data)


@dataclasses.dataclass
class Snapshot:
    """The folder before the command: all of it is on the disk."""

    root: int  # inode
    folders: dict[int, dict[str, int]]  # inode -> name -> inode
    files: dict[int, bytes]


def snapshot(root: pathlib.Path) -> Snapshot:
    found = Snapshot(root.stat().st_ino, {root.stat().st_ino: {}}, {})
    for folder, folders, files in os.walk(root):
        entries = found.folders.setdefault(os.stat(folder).st_ino, {})
        for name in folders + files:
            path = pathlib.Path(folder, name)
            entries[name] = path.stat().st_ino
            if name in files:
                found.files[entries[name]] = path.read_bytes()
            else:
                found.folders.setdefault(entries[name], {})
    return found


@dataclasses.dataclass(frozen=True)
class Operation:
    kind: str
    inode: int
    offset: int
    path: str
    other: str
    data: bytes


def read_log(path: pathlib.Path) -> list[Operation]:
    log, at, found = path.read_bytes(), 0, []
    while at < len(log):
        end = log.index(b"\n", at)
        kind, inode, offset, size, name, other = log[at:end].decode().split("\t")
        at = end + 1 + int(size)
        found.append(Operation(kind, int(inode), int(offset), name, other, log[end + 1 : at]))
    return found


@dataclasses.dataclass(frozen=True)
class Change:
    """Of names, all at once: entries that are set (inode) or removed (None if it is `was`)."""

    folder: int  # whose fsync makes it durable
    entries: tuple[tuple[int, str, int | None, int], ...]  # folder, name, inode, was


def apply(change: Change, folders: dict[int, dict[str, int]]) -> None:
    for folder, name, inode, was in change.entries:
        names = folders.setdefault(folder, {})
        if inode is not None:
            names[name] = inode
        elif names.get(name) == was:
            del names[name]


@dataclasses.dataclass
class File:
    data: bytes = b""
    synced: bytes = b""


class Recording:
    """Operations that were recorded, and the folders that power failures after each would leave."""

    def __init__(self, before: Snapshot, operations: list[Operation]):
        self.before = before
        self.operations = operations

    def final(self) -> Tree:
        """After all operations, without a power failure."""
        machine = Machine(self.before)
        for operation in self.operations:
            machine.perform(operation)
        return machine.seen()

    @functools.cached_property
    def cuts(self) -> list[tuple[int, Tree, list[Tree]]]:
        """For every number of operations: the folder as programs see it then, and what a power
        failure may leave of it. What an earlier one may leave as well is not repeated."""
        machine = Machine(self.before)
        known: set[tuple] = set()
        found = [(0, machine.seen(), list(machine.after_power_failure(known, False)))]
        for count, operation in enumerate(self.operations, 1):
            machine.perform(operation)
            # Names and data meet in all combinations when a name changes or is synced.
            brief = operation.kind in ("write", "truncate")
            found.append((count, machine.seen(), list(machine.after_power_failure(known, brief))))
        return found


class Machine:
    def __init__(self, before: Snapshot):
        self.root = before.root
        self.folders = {inode: dict(names) for inode, names in before.folders.items()}
        self.durable = {inode: dict(names) for inode, names in before.folders.items()}
        self.files = {inode: File(data, data) for inode, data in before.files.items()}
        self.pending: list[Change] = []
        # The system may give the inode of a removed file to a new one; numbers are never reused.
        self.number = {inode: inode for inode in [*before.folders, *before.files]}

    def entry(self, path: str) -> tuple[int, str]:
        *parents, name = path.split("/")
        inode = self.root
        for parent in parents:
            inode = self.folders[inode][parent]
        return inode, name

    def perform(self, operation: Operation) -> None:
        kind, inode = operation.kind, self.number.get(operation.inode, 0)
        if kind == "write":
            old = self.files[inode].data.ljust(operation.offset, b"\0")
            end = operation.offset + len(operation.data)
            self.files[inode].data = old[: operation.offset] + operation.data + old[end:]
        elif kind == "truncate":
            size = operation.offset
            self.files[inode].data = self.files[inode].data[:size].ljust(size, b"\0")
        elif kind == "sync" and inode in self.folders:
            for change in self.pending:
                if change.folder == inode:
                    apply(change, self.durable)
            self.pending = [change for change in self.pending if change.folder != inode]
        elif kind == "sync":
            self.files[inode].synced = self.files[inode].data
        else:
            self.change_names(operation)

    def change_names(self, operation: Operation) -> None:
        kind = operation.kind
        folder, name = self.entry(operation.path)
        was = self.folders[folder].get(name, 0)
        if kind in ("create", "mkdir"):
            inode = self.number[operation.inode] = -len(self.files) - len(self.folders)
            entries = [(folder, name, inode, 0)]
            if kind == "create":
                self.files[inode] = File()
            else:
                self.folders[inode] = {}
                self.durable[inode] = {}
        elif kind == "remove":
            entries = [(folder, name, None, was)]
        else:
            folder, other = self.entry(operation.other)
            source, _ = self.entry(operation.path)
            entries = [(folder, other, was, 0)]
            if kind == "rename":
                entries.append((source, name, None, was))
            elif kind == "exchange":
                entries.append((source, name, self.folders[folder][other], 0))
            elif kind != "link":
                raise ValueError(kind)
        change = Change(folder, tuple(entries))
        apply(change, self.folders)
        self.pending.append(change)

    def seen(self) -> Tree:
        return self.walk(self.folders, lambda file: file.data)

    def walk(self, folders, content) -> Tree:
        found: Tree = {}
        left = [("", self.root)]
        while left:
            prefix, inode = left.pop()
            for name, entry in folders.get(inode, {}).items():
                path = f"{prefix}{name}"
                if entry in self.folders:
                    found[path] = None
                    left.append((f"{path}/", entry))
                else:
                    found[path] = content(self.files[entry])
        return found

    def after_power_failure(self, known: set[tuple], brief: bool) -> Iterator[Tree]:
        for chosen in ([], self.pending) if brief else some_subsets(self.pending):
            folders = {inode: dict(names) for inode, names in self.durable.items()}
            for change in chosen:
                apply(change, folders)
            for content in (lost, zeros, kept):
                left = self.walk(folders, content)
                key = tuple(sorted((path, data) for path, data in left.items() if data is not None))
                key += tuple(sorted(path for path, data in left.items() if data is None))
                if key not in known:
                    known.add(key)
                    yield left


def lost(file: File) -> bytes:
    return file.synced


def zeros(file: File) -> bytes:
    return file.synced.ljust(len(file.data), b"\0")


def kept(file: File) -> bytes:
    return file.data


def some_subsets(pending: list[Change]) -> Iterator[list[Change]]:
    """All subsets of a few; of more the beginnings, the ends, and those with one more or less."""
    if len(pending) <= 5:
        for size in range(len(pending) + 1):
            yield from map(list, itertools.combinations(pending, size))
        return
    for i in range(len(pending) + 1):
        yield pending[:i]
        yield pending[i:]
        if i < len(pending):
            yield [pending[i]]
            yield pending[:i] + pending[i + 1 :]
