# Run by ctest as `cmake -D SOURCE=... -D BINARY=... -P check_listed.cmake`: a source that no
# CMakeLists.txt names is compiled by nobody, and a test in it never runs. The fuzz targets,
# examples/consumer and the CUDA folders are built elsewhere.
file(READ "${BINARY}/compile_commands.json" commands)
set(forgotten "")
foreach(folder IN ITEMS src tools tests bench examples)
  file(GLOB_RECURSE sources "${SOURCE}/${folder}/*.cc" "${SOURCE}/${folder}/*.c")
  list(FILTER sources EXCLUDE REGEX "/tests/fuzz/|/examples/consumer/|/cuda/")
  foreach(source IN LISTS sources)
    string(FIND "${commands}" "\"${source}\"" at)
    if(at EQUAL -1)
      list(APPEND forgotten "${source}")
    endif()
  endforeach()
endforeach()
if(forgotten)
  list(JOIN forgotten "\n  " forgotten)
  message(FATAL_ERROR "named by no CMakeLists.txt:\n  ${forgotten}")
endif()
