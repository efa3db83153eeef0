# Run by ctest as `cmake -D NM=... -D LIBRARY=... -D HEADERS=... -P check_symbols.cmake`: librotary_c
# exports the functions of HEADERS/rotary_c*.h and nothing else.
execute_process(COMMAND "${NM}" -D --defined-only "${LIBRARY}"
                OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^ \n]+\n" exported "${lines}")
list(TRANSFORM exported STRIP)
list(TRANSFORM exported REPLACE "@.*" "")

set(text "")
foreach(name IN ITEMS rotary_c rotary_c_analysis)
  file(READ "${HEADERS}/${name}.h" header)
  string(APPEND text "${header}")
endforeach()
string(REGEX MATCHALL "ROTARY_C_API [^(;]*[ *\n](rotary_[a-z_]+)\\(" declared "${text}")
list(TRANSFORM declared REPLACE ".*[ *\n](rotary_[a-z_]+)\\(" "\\1")

list(SORT exported)
list(SORT declared)
list(LENGTH declared count)
if(count LESS 20)
  message(FATAL_ERROR "found only ${count} functions in ${HEADERS}: ${declared}")
endif()
if(NOT exported STREQUAL declared)
  message(FATAL_ERROR "exported:\n  ${exported}\ndeclared:\n  ${declared}")
endif()
