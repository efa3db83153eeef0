# Run by ctest as `cmake -D SOURCE=... -D BINARY=... -P check_listed.cmake`: a source that no
# CMakeLists.txt names is compiled by nobody, and a test in it never runs. The fuzz targets and the
# consumers of the package are built elsewhere; the CUDA folders where there is a CUDA compiler, and
# then without the stub of the engine.
file(READ "${BINARY}/compile_commands.json" commands)
set(elsewhere "/tests/fuzz/|/tests/torch/|/examples/consumer/|/cuda/no_cuda[.]cc$")
string(FIND "${commands}" "/src/cuda/engine.cc\"" engine)
if(engine EQUAL -1)
  string(APPEND elsewhere "|/cuda/")
endif()
set(forgotten "")
foreach(folder IN ITEMS src tools tests bench examples)
  file(GLOB_RECURSE sources "${SOURCE}/${folder}/*.cc" "${SOURCE}/${folder}/*.c"
       "${SOURCE}/${folder}/*.cu")
  list(FILTER sources EXCLUDE REGEX "${elsewhere}")
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
