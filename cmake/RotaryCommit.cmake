# cmake -D SOURCE=<folder> -D HEADER=<file> [-D COMMIT=<name>] -P RotaryCommit.cmake: writes a header with the commit of
# the source folder, or with COMMIT, if it has changed. "+": the tree has changes. "unknown": no git.
if(NOT COMMIT)
  set(COMMIT unknown)
  find_program(git git)
  if(git)
    execute_process(COMMAND "${git}" describe --always --dirty=+ --exclude "*" WORKING_DIRECTORY "${SOURCE}"
                    OUTPUT_VARIABLE described ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(described)
      set(COMMIT "${described}")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT "${HEADER}" CONTENT [[#pragma once
#define ROTARY_COMMIT_NAME "@COMMIT@"
]] @ONLY)
