#!/usr/bin/env bash
# Sourced by scripts that run long commands: progress while their output goes to a log.

# What is still running when the script ends, by Ctrl-C too, ends with it. A script with an EXIT trap of its own calls
# this there.
end_jobs() {
  local job
  for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
}
trap end_jobs EXIT

# with_progress <log> <what> <command> ...: runs a command without input, adds its output to the log, and prints a line
# at least every 5 s: how many steps Ninja has done, or else <what>. In CI every 20 s after the first two minutes.
progress_shown=$SECONDS  # of all calls, so that short ones in succession are told, too
with_progress() {
  local log=$1 what=$2 job begun=$SECONDS interval=4 never
  shift 2
  "$@" </dev/null >>"$log" 2>&1 &
  job=$!
  # A pipe that nothing is written to: to wait for it takes no process, as sleep does.
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
