# Run by ctest as `cmake -D NM=... -D OBJECTS=... -P check_symbols.cmake`: the object of
# rotate_armv86.cc, which not every CPU can run, defines no function that other files may share.
list(FILTER OBJECTS INCLUDE REGEX "/rotate_armv86[.]cc[.]o(bj)?$")
execute_process(COMMAND "${NM}" -g --defined-only ${OBJECTS}
                OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^ \n]+\n" symbols "${lines}")
list(TRANSFORM symbols STRIP)
# Its namespace, the function that it exports, and the compiler's reference to a run-time function.
list(FILTER symbols EXCLUDE REGEX "^DW[.]ref[.]")
list(LENGTH symbols count)
if(count LESS 10)
  message(FATAL_ERROR "found only ${count} symbols in ${OBJECTS}:\n${lines}")
endif()
list(FILTER symbols EXCLUDE REGEX "N_ARMV86|choose_armv86_kernel")
if(symbols)
  list(JOIN symbols "\n  " symbols)
  message(FATAL_ERROR "not in the namespace of rotate_armv86.cc:\n  ${symbols}")
endif()
