# Run by ctest as `cmake -D METHOD=... -P check.cmake`: builds examples/consumer outside the tree,
# runs it and checks its output.
#   find_package       installs the built rotary to a prefix of its own, which must suffice
#   add_subdirectory   adds rotary's sources, as a shared library to test that as well

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()

file(REMOVE_RECURSE "${WORK}")
set(arguments -S "${SOURCE}/examples/consumer" -B "${WORK}/build" -G "${GENERATOR}"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
    -DCMAKE_BUILD_TYPE=)

if(METHOD STREQUAL "find_package")
  set(prefix "${WORK}/prefix")
  run("${CMAKE_COMMAND}" --install "${BINARY}" --prefix "${prefix}")
  # Strict warnings, as careful users enable them.
  list(APPEND arguments "-DCMAKE_PREFIX_PATH=${prefix}"
       -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON
       "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror")

  file(GLOB installed RELATIVE "${prefix}" "${prefix}/include/*")
  if(NOT installed STREQUAL "include/rotary")
    message(FATAL_ERROR "include/ holds more than include/rotary: ${installed}")
  endif()
  file(GLOB_RECURSE config "${prefix}/*.cmake")
  if(NOT config)
    message(FATAL_ERROR "no CMake package under ${prefix}")
  endif()
  foreach(file IN LISTS config)
    file(STRINGS "${file}" leaks REGEX "nlohmann|${SOURCE}")
    if(leaks)
      message(FATAL_ERROR "${file} refers to files that users do not have: ${leaks}")
    endif()
  endforeach()
elseif(METHOD STREQUAL "add_subdirectory")
  list(APPEND arguments "-DROTARY_SOURCE=${SOURCE}" -DBUILD_SHARED_LIBS=ON -DROTARY_CUDA=OFF
       -DROTARY_UNITY_BUILD=ON)
endif()

run("${CMAKE_COMMAND}" ${arguments})
run("${CMAKE_COMMAND}" --build "${WORK}/build")

execute_process(COMMAND "${WORK}/build/consumer" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
foreach(line IN ITEMS "rotary ${VERSION}\n" "pair 1: frequency 0.1 rad per token\n")
  string(FIND "${output}" "${line}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "the consumer did not print: ${line}It printed:\n${output}")
  endif()
endforeach()
