// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A fork server, preloaded into the program roformer: most of the time of a short command is the
// loading of PyTorch, which all commands of a test then share. The program is loaded, stops before
// main(), and forks for every request. The child runs main() as if it had just been started, and
// ends without the destructors of static objects, which for PyTorch take as long as a third of the
// loading.
//
//   FORK_SERVER_PROGRAM  serves only if it is this file: the launcher, which becomes it, does not
//   FORK_SERVER_SOCKET   the number of a socket of whole messages (SOCK_SEQPACKET)
//
// A request: standard output and error as SCM_RIGHTS, and strings, each ended by a NUL: the working
// directory, the number of arguments, the arguments with the program's name, and the environment.
// The answer: the status of waitpid() as an int. The server ends when the socket is closed.
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int Main(int, char**, char**);

enum { kMaxBytes = 1 << 20, kMaxStrings = 1 << 12 };

static Main* g_main = NULL;
static char g_request[kMaxBytes];
static char* g_strings[kMaxStrings + 1];

static void require(int condition, const char* what) {
  if (condition) return;
  perror(what);
  _exit(125);
}

/// Reads a request into g_strings and `outputs`; their number, or 0 at the end.
static int receive(int socket, int outputs[2]) {
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(2 * sizeof(int))];
  } control;
  struct iovec data = {g_request, sizeof g_request};
  struct msghdr message = {.msg_iov = &data,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  const ssize_t size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  require(size >= 0 && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0, "recvmsg");
  if (size == 0) return 0;
  const struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  require(header != NULL && g_request[size - 1] == '\0', "a request of the fork server");
  memcpy(outputs, CMSG_DATA(header), 2 * sizeof(int));
  int count = 0;
  for (char* at = g_request; at < g_request + size; at += strlen(at) + 1) {
    require(count < kMaxStrings, "strings of a request");
    g_strings[count++] = at;
  }
  g_strings[count] = NULL;
  return count;
}

/// Runs main() in a forked process for each request.
_Noreturn static void serve(int socket) {
  int outputs[2];
  for (int count = receive(socket, outputs); count > 0; count = receive(socket, outputs)) {
    const pid_t child = fork();
    require(child >= 0, "fork");
    if (child == 0) {
      require(count > 2, "a request of the fork server");
      const size_t arguments = strtoul(g_strings[1], NULL, 10);
      require(arguments > 0 && arguments + 2 <= (size_t)count, "arguments of a request");
      require(dup2(outputs[0], 1) == 1 && dup2(outputs[1], 2) == 2, "dup2");
      close(outputs[0]);
      close(outputs[1]);
      close(socket);
      require(chdir(g_strings[0]) == 0, g_strings[0]);
      environ = g_strings + 2 + arguments;
      static char* own[kMaxStrings + 1];
      memcpy(own, g_strings + 2, arguments * sizeof *own);
      // Of file_faults.c, if it is preloaded, too.
      void (*start_faults)(void) = NULL;
      *(void**)&start_faults = dlsym(RTLD_DEFAULT, "file_faults_start_from_environment");
      if (start_faults != NULL) start_faults();
      const int code = g_main((int)arguments, own, environ);
      fflush(NULL);
      _exit(code);
    }
    close(outputs[0]);
    close(outputs[1]);
    int status = 0;
    require(waitpid(child, &status, 0) == child, "waitpid");
    require(send(socket, &status, sizeof status, 0) == sizeof status, "send");
  }
  _exit(0);
}

static int serve_or_run(int argc, char** argv, char** variables) {
  const char* program = getenv("FORK_SERVER_PROGRAM");
  const char* socket = getenv("FORK_SERVER_SOCKET");
  char self[PATH_MAX] = "";
  if (program == NULL || socket == NULL || readlink("/proc/self/exe", self, sizeof self - 1) < 0 ||
      strcmp(self, program) != 0) {
    return g_main(argc, argv, variables);
  }
  serve((int)strtol(socket, NULL, 10));
}

/// What the start of every program calls.
// NOLINTNEXTLINE(bugprone-reserved-identifier, readability-identifier-naming)
int __libc_start_main(Main* main, int argc, char** argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void* stack_end) {
  static int (*real)(Main*, int, char**, void (*)(void), void (*)(void), void (*)(void), void*);
  *(void**)&real = dlsym(RTLD_NEXT, "__libc_start_main");
  g_main = main;
  return real(serve_or_run, argc, argv, init, fini, loader_fini, stack_end);
}
