# Run by ctest as `cmake -D SOURCE=... -D BINARY=... -P check_listed.cmake`: fails for a source that no
# CMakeLists.txt lists, which would never be compiled or run. Not checked: fuzz targets and consumers of
# the package, which are built elsewhere; tests/docs, which needs a build of all parts; kernels and
# CUDA folders in a build without them, and with one the stub of the engine; charts and JPEG files, with their
# library or without; RoFormer without ROTARY_BUILD_ROFORMER, and its model without ROTARY_BUILD_TORCH.
cmake_policy(SET CMP0009 NEW)  # the include directories of the build tree are links to sources
file(READ "${BINARY}/compile_commands.json" commands)
# Sources of unity builds are named in the files that include them.
file(GLOB_RECURSE units "${BINARY}/unity_*_cxx.cxx")
foreach(unit IN LISTS units)
  file(READ "${unit}" included)
  string(APPEND commands "${included}")
endforeach()
set(elsewhere "/tests/docs/|/tests/fuzz/|/tests/torch/|/examples/consumer/|/cuda/no_cuda[.]cc$|/lab/(no_cairo|cairo_chart|no_jpeg|libjpeg)[.]cc$")
string(FIND "${commands}" "/src/cuda/engine.cc\"" engine)
if(engine EQUAL -1)
  string(APPEND elsewhere "|/cuda/|[.]cu$")
endif()
string(FIND "${commands}" "/roformer/text/" roformer)
if(roformer EQUAL -1)
  string(APPEND elsewhere "|/roformer/")
endif()
string(FIND "${commands}" "/transformer/" torch)
if(torch EQUAL -1)
  string(APPEND elsewhere "|/pytorch/|/transformer/|/roformer/(model|checkpoint|train|tasks|lab|cli)/"
         "|/tests/roformer/(checkpoint|checkpoint_faults|folds|freeze|generated_tasks|lab_[a-z]+|language|model|optimizer|precision|qk_norm"
         "|relative_encoding|run_config|step|task_labs|tasks|train)_test[.]cc$")
endif()
string(FIND "${commands}" "ROTARY_TORCH_CUDA_KERNELS" torch_kernels)
if(torch_kernels EQUAL -1)  # host code of kernels, for a PyTorch with CUDA
  string(APPEND elsewhere "|/linear_attention/chunk_product[.]cc$")
endif()
string(FIND "${commands}" "/faults/file_faults.c\"" faults)
if(faults EQUAL -1)  # under sanitizers
  string(APPEND elsewhere "|/tests/faults/|/checkpoint_faults_test[.]cc$")
endif()
set(forgotten "")
foreach(folder IN ITEMS src explorer/bridge explorer/embed pytorch transformer roformer tools tests bench examples)
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
  message(FATAL_ERROR "not listed in any CMakeLists.txt:\n  ${forgotten}")
endif()
