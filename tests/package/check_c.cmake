# Run by ctest as `cmake -D METHOD=... -P check_c.cmake`: installs the built rotary to a prefix of its
# own, builds examples/c against it with a C compiler alone, runs it and checks its output.
#   find_package   as a CMake project
#   pkg_config     with the flags that pkg-config gives

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()

file(REMOVE_RECURSE "${WORK}")
set(prefix "${WORK}/prefix")
run("${CMAKE_COMMAND}" --install "${BINARY}" --prefix "${prefix}")
# Strict warnings, as careful users enable them.
set(warnings -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)

if(METHOD STREQUAL "find_package")
  list(JOIN warnings " " flags)
  run("${CMAKE_COMMAND}" -S "${SOURCE}/examples/c" -B "${WORK}/build" -G "${GENERATOR}"
      "-DCMAKE_C_COMPILER=${COMPILER}" "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_C_FLAGS=${flags}"
      -DCMAKE_BUILD_TYPE= -DCMAKE_DISABLE_FIND_PACKAGE_hwy=ON)
  run("${CMAKE_COMMAND}" --build "${WORK}/build")
  set(program "${WORK}/build/rotate")
elseif(METHOD STREQUAL "pkg_config")
  file(GLOB_RECURSE pc "${prefix}/rotary_c.pc")
  cmake_path(GET pc PARENT_PATH pc_dir)
  set(ENV{PKG_CONFIG_PATH} "${pc_dir}")
  execute_process(COMMAND "${PKG_CONFIG}" --cflags --libs rotary_c
                  OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${PKG_CONFIG}" --variable=libdir rotary_c
                  OUTPUT_VARIABLE libdir OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${PKG_CONFIG}" --modversion rotary_c
                  OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  if(NOT version STREQUAL VERSION)
    message(FATAL_ERROR "rotary_c.pc has version ${version}, not ${VERSION}")
  endif()
  separate_arguments(flags UNIX_COMMAND "${flags}")
  set(program "${WORK}/rotate")
  run("${COMPILER}" ${warnings} "${SOURCE}/examples/c/rotate.c" ${flags} "-Wl,-rpath,${libdir}"
      -o "${program}")
endif()

execute_process(COMMAND "${program}" "${SOURCE}/examples/models/llama-3.1-8b.json"
                OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
foreach(line IN ITEMS "rotary ${VERSION}\n" "default: llama3, theta 500000, 128 of 128 dims rotated"
        "unrotated: the same within 1e-6\n" "a head of 4: invalid argument: [rotate] ")
  string(FIND "${output}" "${line}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "the C example did not print: ${line}It printed:\n${output}")
  endif()
endforeach()
