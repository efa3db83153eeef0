// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// See file_faults.h. Written in C, since it defines functions of the C library, whose exception
// specifications in C++ differ between versions.
#include "faults/file_faults.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

// The next definition of a function: that of the C library.
#define ROTARY_REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__);  \
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, name)

enum Kind { kCreate, kOpen, kWrite, kResize, kSync, kClose, kName, kRemove, kMode };
static const char* const kKindNames[] = {"create", "open", "write",  "resize", "sync",
                                         "close",  "name", "remove", "mode"};

// ---- State --------------------------------------------------------------------------------------

// Recursive: some functions of the C library that are defined here call others of them.
static pthread_mutex_t g_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static char g_root[PATH_MAX];
static int g_log = -1;
static enum FileFault g_fault = kNoFault;
static long g_at = 0;
static long g_count = 0;
static long g_fired = 0;

static int real_open(const char* path, int flags, mode_t mode) {
  ROTARY_REAL(int, "open", const char*, int, ...);
  return real(path, flags, mode);
}
static ssize_t real_write(int file, const void* data, size_t size) {
  ROTARY_REAL(ssize_t, "write", int, const void*, size_t);
  return real(file, data, size);
}
static int real_close(int file) {
  ROTARY_REAL(int, "close", int);
  return real(file);
}

void file_faults_start(const char* root, enum FileFault fault, long at) {
  pthread_mutex_lock(&g_lock);
  if (realpath(root, g_root) == NULL) abort();
  g_fault = fault;
  g_at = at;
  g_count = 0;
  g_fired = 0;
  pthread_mutex_unlock(&g_lock);
}

long file_faults_stop(void) {
  pthread_mutex_lock(&g_lock);
  g_root[0] = '\0';
  g_fault = kNoFault;
  const long fired = g_fired;
  pthread_mutex_unlock(&g_lock);
  return fired;
}

__attribute__((constructor)) void file_faults_start_from_environment(void) {
  const char* root = getenv("FILE_FAULTS_ROOT");
  if (root == NULL) return;
  const char* log = getenv("FILE_FAULTS_LOG");
  if (log != NULL) {
    g_log = real_open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (g_log < 0) abort();
  }
  enum FileFault fault = kNoFault;
  const char* name = getenv("FILE_FAULTS_ACTION");
  if (name != NULL) {
    fault = strcmp(name, "kill") == 0   ? kKill
            : strcmp(name, "eio") == 0  ? kError
            : strcmp(name, "full") == 0 ? kFullDisk
                                        : kNoFault;
    if (fault == kNoFault) abort();
  }
  const char* at = getenv("FILE_FAULTS_AT");
  file_faults_start(root, fault, at == NULL ? 0 : strtol(at, NULL, 10));
}

// ---- Paths --------------------------------------------------------------------------------------

// The part of a path below the root, "" for the root itself; NULL if it is elsewhere.
static const char* below_root(const char* path) {
  const size_t length = strlen(g_root);
  if (length == 0 || strncmp(path, g_root, length) != 0) return NULL;
  if (path[length] == '\0') return path + length;
  return path[length] == '/' ? path + length + 1 : NULL;
}

// Reads the path of an open file; false if it is not below the root.
static bool locate_file(int file, char path[PATH_MAX]) {
  if (g_root[0] == '\0' || file == g_log) return false;
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, PATH_MAX - 1);
  if (length < 0) return false;
  path[length] = '\0';
  const char* below = below_root(path);
  if (below == NULL) return false;
  memmove(path, below, strlen(below) + 1);
  return true;
}

// The same for a name, which need not exist and is not followed if it is a link.
static bool locate(int folder, const char* name, char path[PATH_MAX]) {
  if (g_root[0] == '\0' || name == NULL || name[0] == '\0' || strlen(name) >= PATH_MAX / 2) {
    return false;
  }
  char text[2 * PATH_MAX];
  if (name[0] == '/' || folder == AT_FDCWD) {
    snprintf(text, sizeof text, "%s", name);
  } else {
    snprintf(text, sizeof text, "/proc/self/fd/%d/%s", folder, name);
  }
  for (size_t end = strlen(text); end > 1 && text[end - 1] == '/'; --end) text[end - 1] = '\0';
  char parent[PATH_MAX];
  char* slash = strrchr(text, '/');
  const char* last = slash == NULL ? text : slash + 1;
  if (slash != NULL) *slash = '\0';
  if (realpath(slash == NULL ? "." : slash == text ? "/" : text, parent) == NULL) return false;
  char whole[3 * PATH_MAX + 1];
  snprintf(whole, sizeof whole, "%s/%s", parent, last);
  const char* below = below_root(whole);
  if (below == NULL || strlen(below) >= PATH_MAX) return false;
  memcpy(path, below, strlen(below) + 1);
  return true;
}

static bool exists(int folder, const char* name) {
  struct stat status;
  return fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

// ---- The log ------------------------------------------------------------------------------------

static void log_bytes(const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = real_write(g_log, bytes, size);
    if (written <= 0) abort();
    bytes += written;
    size -= (size_t)written;
  }
}

// A line "operation TAB inode TAB offset TAB bytes TAB path TAB other path", then the bytes.
static void log_line(const char* operation, unsigned long inode, long offset, size_t size,
                     const char* path, const char* other) {
  if (g_log < 0) return;
  char line[3 * PATH_MAX];
  const int length = snprintf(line, sizeof line, "%s\t%lu\t%ld\t%zu\t%s\t%s\n", operation, inode,
                              offset, size, path, other);
  log_bytes(line, (size_t)length);
}

static unsigned long inode_of(int file) {
  struct stat status;
  return fstat(file, &status) == 0 ? (unsigned long)status.st_ino : 0;
}

static unsigned long inode_at(int folder, const char* name) {
  struct stat status;
  const int found = fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW);
  return found == 0 ? (unsigned long)status.st_ino : 0;
}

// What was written just now, read back: one way for every kind of write.
static void log_written(int file, const char* path, off_t offset, ssize_t size) {
  if (g_log < 0 || size <= 0) return;
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const int again = real_open(link, O_RDONLY | O_CLOEXEC, 0);
  char* bytes = malloc((size_t)size);
  if (again < 0 || bytes == NULL || pread(again, bytes, (size_t)size, offset) != size) abort();
  real_close(again);
  log_line("write", inode_of(file), (long)offset, (size_t)size, path, "");
  log_bytes(bytes, (size_t)size);
  free(bytes);
}

// ---- Faults -------------------------------------------------------------------------------------

static bool takes_space(enum Kind kind) {
  return kind == kCreate || kind == kWrite || kind == kSync || kind == kClose || kind == kName;
}

// Counts an operation below the root: 0, or the errno with which it fails. The lock is held.
static int judge(enum Kind kind) {
  ++g_count;
  if (g_fault == kNoFault || g_count < g_at) return 0;
  if (g_fault == kFullDisk ? !takes_space(kind) : g_count != g_at) return 0;
  if (++g_fired == 1) log_line("fault", 0, g_count, 0, kKindNames[kind], "");
  if (g_fault == kFullDisk) return ENOSPC;
  if (g_fault == kKill && kind != kWrite) kill(getpid(), SIGKILL);
  return EIO;
}

#define ROTARY_BEGIN(kind)         \
  pthread_mutex_lock(&g_lock);     \
  const int error = judge(kind);   \
  if (error != 0) {                \
    pthread_mutex_unlock(&g_lock); \
    errno = error;                 \
    return -1;                     \
  }

static void end_quietly(void) {
  const int kept = errno;
  pthread_mutex_unlock(&g_lock);
  errno = kept;
}

// ---- Writes -------------------------------------------------------------------------------------

// How many bytes of a write happen: all; half of them, before a kill or the first time that the
// disk is full; or none, with an error.
static ssize_t size_to_write(size_t size) {
  const int error = judge(kWrite);
  if (error == 0) return (ssize_t)size;
  if (g_fired == 1 && g_fault != kError && size > 1) return (ssize_t)(size / 2);
  if (g_fault == kKill) kill(getpid(), SIGKILL);
  errno = error;
  return -1;
}

static void end_write(int file, const char* path, ssize_t written) {
  const int kept = errno;
  if (g_fault == kKill && g_fired > 0) kill(getpid(), SIGKILL);
  log_written(file, path, lseek(file, 0, SEEK_CUR) - (written > 0 ? written : 0), written);
  pthread_mutex_unlock(&g_lock);
  errno = kept;
}

ssize_t write(int file, const void* data, size_t size) {
  char path[PATH_MAX];
  if (!locate_file(file, path)) return real_write(file, data, size);
  pthread_mutex_lock(&g_lock);
  ssize_t done = size_to_write(size);
  if (done >= 0) done = real_write(file, data, (size_t)done);
  end_write(file, path, done);
  return done;
}

ssize_t writev(int file, const struct iovec* parts, int count) {
  ROTARY_REAL(ssize_t, "writev", int, const struct iovec*, int);
  char path[PATH_MAX];
  if (!locate_file(file, path)) return real(file, parts, count);
  ssize_t total = 0;  // one part after the other, so that each can be cut in half
  for (int i = 0; i < count; ++i) {
    if (parts[i].iov_len == 0) continue;
    const ssize_t done = write(file, parts[i].iov_base, parts[i].iov_len);
    if (done < 0) return total > 0 ? total : -1;
    total += done;
    if ((size_t)done < parts[i].iov_len) break;
  }
  return total;
}

ssize_t pwrite(int file, const void* data, size_t size, off_t offset) {
  ROTARY_REAL(ssize_t, "pwrite", int, const void*, size_t, off_t);
  char path[PATH_MAX];
  if (!locate_file(file, path)) return real(file, data, size, offset);
  pthread_mutex_lock(&g_lock);
  ssize_t done = size_to_write(size);
  if (done >= 0) done = real(file, data, (size_t)done, offset);
  if (g_fault == kKill && g_fired > 0) kill(getpid(), SIGKILL);
  log_written(file, path, offset, done);
  end_quietly();
  return done;
}
ssize_t pwrite64(int file, const void* data, size_t size, off_t offset) {
  return pwrite(file, data, size, offset);
}

ssize_t sendfile(int out, int in, off_t* offset, size_t size) {
  ROTARY_REAL(ssize_t, "sendfile", int, int, off_t*, size_t);
  char path[PATH_MAX];
  if (!locate_file(out, path)) return real(out, in, offset, size);
  pthread_mutex_lock(&g_lock);
  ssize_t done = size_to_write(size);
  if (done >= 0) done = real(out, in, offset, (size_t)done);
  end_write(out, path, done);
  return done;
}
ssize_t sendfile64(int out, int in, off_t* offset, size_t size) {
  return sendfile(out, in, offset, size);
}

ssize_t copy_file_range(int in, off64_t* in_offset, int out, off64_t* out_offset, size_t size,
                        unsigned flags) {
  ROTARY_REAL(ssize_t, "copy_file_range", int, off64_t*, int, off64_t*, size_t, unsigned);
  char path[PATH_MAX];
  if (!locate_file(out, path)) return real(in, in_offset, out, out_offset, size, flags);
  // Callers fall back to sendfile() or write(), which are recorded.
  errno = ENOSYS;
  return -1;
}

int ftruncate(int file, off_t size) {
  ROTARY_REAL(int, "ftruncate", int, off_t);
  char path[PATH_MAX];
  if (!locate_file(file, path)) return real(file, size);
  ROTARY_BEGIN(kResize)
  const int result = real(file, size);
  if (result == 0) log_line("truncate", inode_of(file), (long)size, 0, path, "");
  end_quietly();
  return result;
}
int ftruncate64(int file, off_t size) { return ftruncate(file, size); }

// ---- Opening and closing ------------------------------------------------------------------------

// After a file was opened: created, or emptied.
static void log_opened(int file, const char* path, bool was_there, bool truncates) {
  if (!was_there) {
    log_line("create", inode_of(file), 0, 0, path, "");
  } else if (truncates) {
    log_line("truncate", inode_of(file), 0, 0, path, "");
  }
}

static int open_file(int folder, const char* name, int flags, mode_t mode) {
  ROTARY_REAL(int, "openat", int, const char*, int, ...);
  char path[PATH_MAX];
  const bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT) != 0;
  if (!writes || !locate(folder, name, path)) return real(folder, name, flags, mode);
  const bool was_there = exists(folder, name);
  ROTARY_BEGIN(was_there ? kOpen : kCreate)
  const int file = real(folder, name, flags, mode);
  if (file >= 0) log_opened(file, path, was_there, (flags & O_TRUNC) != 0);
  end_quietly();
  return file;
}

// The mode is there only if a file may be created.
#define ROTARY_MODE(flags)                      \
  mode_t mode = 0;                              \
  if (((flags) & (O_CREAT | O_TMPFILE)) != 0) { \
    va_list arguments;                          \
    va_start(arguments, flags);                 \
    mode = (mode_t)va_arg(arguments, unsigned); \
    va_end(arguments);                          \
  }

int open(const char* name, int flags, ...) {
  ROTARY_MODE(flags)
  return open_file(AT_FDCWD, name, flags, mode);
}
int open64(const char* name, int flags, ...) {
  ROTARY_MODE(flags)
  return open_file(AT_FDCWD, name, flags, mode);
}
int openat(int folder, const char* name, int flags, ...) {
  ROTARY_MODE(flags)
  return open_file(folder, name, flags, mode);
}
int openat64(int folder, const char* name, int flags, ...) {
  ROTARY_MODE(flags)
  return open_file(folder, name, flags, mode);
}
int creat(const char* name, mode_t mode) {
  return open_file(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int creat64(const char* name, mode_t mode) { return creat(name, mode); }

// std::ofstream opens with fopen(), but writes with write() and writev(). What C code writes to
// such a stream is not seen; the test that compares the log with the folder would find that.
FILE* fopen(const char* name, const char* how) {
  ROTARY_REAL(FILE*, "fopen", const char*, const char*);
  char path[PATH_MAX];
  const bool writes = strpbrk(how, "wa+") != NULL;
  if (!writes || !locate(AT_FDCWD, name, path)) return real(name, how);
  const bool was_there = exists(AT_FDCWD, name);
  pthread_mutex_lock(&g_lock);
  const int error = judge(was_there ? kOpen : kCreate);
  FILE* file = error == 0 ? real(name, how) : NULL;
  if (file != NULL) log_opened(fileno(file), path, was_there, how[0] == 'w');
  end_quietly();
  if (error != 0) errno = error;
  return file;
}
FILE* fopen64(const char* name, const char* how) { return fopen(name, how); }

int close(int file) {
  char path[PATH_MAX];
  const int flags = fcntl(file, F_GETFL);
  const bool writes = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
  if (!writes || !locate_file(file, path)) return real_close(file);
  pthread_mutex_lock(&g_lock);
  const int error = judge(kClose);
  const int result = real_close(file);
  end_quietly();
  if (error == 0) return result;
  errno = error;
  return -1;
}

// Nothing is synced in truth: no test pulls the plug, and a disk takes its time.
static int sync_file(int (*real)(int), int file) {
  char path[PATH_MAX];
  if (!locate_file(file, path)) return real(file);
  ROTARY_BEGIN(kSync)
  log_line("sync", inode_of(file), 0, 0, path, "");
  end_quietly();
  return 0;
}
int fsync(int file) {
  ROTARY_REAL(int, "fsync", int);
  return sync_file(real, file);
}
int fdatasync(int file) {
  ROTARY_REAL(int, "fdatasync", int);
  return sync_file(real, file);
}

// ---- Names --------------------------------------------------------------------------------------

int mkdirat(int folder, const char* name, mode_t mode) {
  ROTARY_REAL(int, "mkdirat", int, const char*, mode_t);
  char path[PATH_MAX];
  if (!locate(folder, name, path)) return real(folder, name, mode);
  ROTARY_BEGIN(kCreate)
  const int result = real(folder, name, mode);
  if (result == 0) log_line("mkdir", inode_at(folder, name), 0, 0, path, "");
  end_quietly();
  return result;
}
int mkdir(const char* name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

char* mkdtemp(char* name) {
  ROTARY_REAL(char*, "mkdtemp", char*);
  char path[PATH_MAX];
  if (!locate(AT_FDCWD, name, path)) return real(name);
  pthread_mutex_lock(&g_lock);
  const int error = judge(kCreate);
  char* made = error == 0 ? real(name) : NULL;
  if (made != NULL && locate(AT_FDCWD, made, path)) {
    log_line("mkdir", inode_at(AT_FDCWD, made), 0, 0, path, "");
  }
  end_quietly();
  if (error != 0) errno = error;
  return made;
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  ROTARY_REAL(int, "renameat2", int, const char*, int, const char*, unsigned);
  char path[PATH_MAX];
  char other[PATH_MAX];
  if (!locate(from_folder, from, path) || !locate(to_folder, to, other)) {
    return real(from_folder, from, to_folder, to, flags);
  }
  ROTARY_BEGIN(kName)
  const int result = real(from_folder, from, to_folder, to, flags);
  const bool exchange = (flags & RENAME_EXCHANGE) != 0;
  if (result == 0) log_line(exchange ? "exchange" : "rename", 0, 0, 0, path, other);
  end_quietly();
  return result;
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  return renameat2(from_folder, from, to_folder, to, 0);
}
int rename(const char* from, const char* to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  ROTARY_REAL(int, "linkat", int, const char*, int, const char*, int);
  char path[PATH_MAX];
  char other[PATH_MAX];
  if (!locate(from_folder, from, path) || !locate(to_folder, to, other)) {
    return real(from_folder, from, to_folder, to, flags);
  }
  ROTARY_BEGIN(kName)
  const int result = real(from_folder, from, to_folder, to, flags);
  if (result == 0) log_line("link", 0, 0, 0, path, other);
  end_quietly();
  return result;
}
int link(const char* from, const char* to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int folder, const char* name, int flags) {
  ROTARY_REAL(int, "unlinkat", int, const char*, int);
  char path[PATH_MAX];
  if (!locate(folder, name, path)) return real(folder, name, flags);
  ROTARY_BEGIN(kRemove)
  const int result = real(folder, name, flags);
  if (result == 0) log_line("remove", 0, 0, 0, path, "");
  end_quietly();
  return result;
}
int unlink(const char* name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char* name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }
int remove(const char* name) {
  struct stat status;
  const bool folder = lstat(name, &status) == 0 && S_ISDIR(status.st_mode);
  return folder ? rmdir(name) : unlink(name);
}

// Permissions fail like the rest, but are not recorded.
int fchmod(int file, mode_t mode) {
  ROTARY_REAL(int, "fchmod", int, mode_t);
  char path[PATH_MAX];
  if (!locate_file(file, path)) return real(file, mode);
  ROTARY_BEGIN(kMode)
  const int result = real(file, mode);
  end_quietly();
  return result;
}
int fchmodat(int folder, const char* name, mode_t mode, int flags) {
  ROTARY_REAL(int, "fchmodat", int, const char*, mode_t, int);
  char path[PATH_MAX];
  if (!locate(folder, name, path)) return real(folder, name, mode, flags);
  ROTARY_BEGIN(kMode)
  const int result = real(folder, name, mode, flags);
  end_quietly();
  return result;
}
int chmod(const char* name, mode_t mode) { return fchmodat(AT_FDCWD, name, mode, 0); }
