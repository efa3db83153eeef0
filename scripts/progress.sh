#!/usr/bin/env bash
# Sourced by scripts that run long commands: progress while their output goes to a log.

# On exit, by Ctrl-C too, background jobs are ended. A script with an EXIT trap of its own calls this in it.
end_jobs() {
  local job
  for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
}
trap end_jobs EXIT

# with_progress <log> <what> <command> ...: runs a command without input, adds its output to the log, and prints a line
# at least every 5 s: how many steps Ninja has done, or else <what>. In CI every 20 s after the first two minutes.
progress_shown=$SECONDS  # shared by all calls, so that a series of short commands reports, too
with_progress() {
  local log=$1 what=$2 job begun=$SECONDS never
  local interval=4  # whole seconds: up to 5
  shift 2
  "$@" </dev/null >>"$log" 2>&1 &
  job=$!
  # To wait for a pipe that nothing is written to is a sleep without a process.
  exec {never}<> <(:)
  while kill -0 "$job" 2>/dev/null; do
    read -rt 0.1 -u "$never" || true
    [[ -z ${CI:-} ]] || interval=$((SECONDS - begun < 120 ? 4 : 20))
    ((SECONDS - progress_shown >= interval)) || continue
    progress_shown=$SECONDS
    # Ninja prints [12/57] for each step.
    printf '  %d s: %s\n' "$SECONDS" "$(awk -F '[][/]' -v what="$what" '
      /^\[[0-9]+\/[0-9]+\]/ { text = $2 " of " $3 " steps" }
      END { print text ? text : what }' "$log")"
  done
  exec {never}>&-
  wait "$job"
}
