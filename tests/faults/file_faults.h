/* Copyright 2026 The rotary authors.
   SPDX-License-Identifier: Apache-2.0 */

/* Faults of a file system, for tests on Linux with the GNU C library.

   A shared library that stands before the C library's functions that change files. It counts the
   calls that concern one folder and what is below it; all others pass through. The N-th of them can
   fail, or end the process; all of them can be recorded, so that a test can replay what a power
   failure would have left (disk.py). Preloaded into a command (LD_PRELOAD), it reads

     FILE_FAULTS_ROOT     the folder
     FILE_FAULTS_ACTION   kill, eio or full
     FILE_FAULTS_AT       N, from 1
     FILE_FAULTS_LOG      the file to append records to

   A test program that links it calls the functions below instead. Calls inside the C library, such
   as fwrite(), cannot be seen: the tests check that the log accounts for every byte of the folder.
*/
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

enum FileFault {
  kNoFault,
  kKill,    /* SIGKILL before the N-th call; of a write, half has happened */
  kError,   /* the N-th call fails with EIO */
  kFullDisk /* from the N-th call on, what takes space fails with ENOSPC; a first write is short */
};

/* At the start of a process, and of one that is forked with another environment. */
void file_faults_start_from_environment(void);
void file_faults_start(const char* root, enum FileFault fault, long at);
/* The number of calls that failed since the start. Not for kKill. */
long file_faults_stop(void);

#ifdef __cplusplus
}
#endif
