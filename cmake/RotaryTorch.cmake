# Finds the PyTorch of ROTARY_PYTHON, or else the LibTorch in CMAKE_PREFIX_PATH or Torch_DIR.
# With ROTARY_BUILD_TORCH=AUTO, as in `pip install .`, a missing PyTorch sets it to OFF and says so.
# With STABLE, as in the wheel of scripts/wheel.sh, it is OFF, and ROTARY_BUILD_TORCH_STABLE ON: only the
# library for PyTorch's stable ABI is built, with the headers of PyTorch 2.11 or newer.
# Included at the top level, so that every folder sees its targets.
if(SKBUILD AND NOT ROTARY_PYTHON)
  set(ROTARY_PYTHON "${Python_EXECUTABLE}")
endif()

# rotary_query_torch(<variable> [<command> ...]): folder, version and CUDA version of the PyTorch
# that ROTARY_PYTHON finds when <command> starts it, or an empty list, and <variable>_missing with the
# reason. Does not import it, which takes seconds.
function(rotary_query_torch variable)
  execute_process(
    COMMAND ${ARGN} "${ROTARY_PYTHON}" -c [=[
import importlib.util, os, runpy, sys
spec = importlib.util.find_spec("torch")
if spec is None or spec.origin is None:
    sys.exit("its Python %d.%d has no package torch in %s" % (*sys.version_info[:2], sys.prefix))
folder = os.path.dirname(spec.origin)
version = runpy.run_path(os.path.join(folder, "version.py"))
print(folder, version["__version__"], version.get("cuda") or "", sep=";", end="")
]=]
    WORKING_DIRECTORY "${CMAKE_BINARY_DIR}"
    OUTPUT_VARIABLE found RESULT_VARIABLE failed ERROR_VARIABLE missing)
  if(failed)
    set(found "")
    if(NOT missing)
      set(missing "${failed}")  # it did not start
    endif()
  endif()
  string(STRIP "${missing}" missing)
  set(${variable} "${found}" PARENT_SCOPE)
  set(${variable}_missing "${missing}" PARENT_SCOPE)
endfunction()

# rotary_host_torch(<folder>): the target `torch` and the variables of find_package(Torch) without
# the CUDA part of PyTorch, which needs a CUDA compiler even if no kernel is compiled.
macro(rotary_host_torch folder)
  set(TORCH_INSTALL_PREFIX "${folder}")
  set(TORCH_LIBRARY "${folder}/lib/libtorch.so")
  set(TORCH_LIBRARIES torch)
  set(TORCH_CUDA_LIBRARIES "")
  add_library(torch SHARED IMPORTED)
  set_target_properties(torch PROPERTIES
    IMPORTED_LOCATION "${folder}/lib/libtorch_cpu.so"
    INTERFACE_INCLUDE_DIRECTORIES "${folder}/include;${folder}/include/torch/csrc/api/include"
    INTERFACE_LINK_LIBRARIES "${folder}/lib/libc10.so")
endmacro()

set(oldest_torch 2.7)
if(ROTARY_BUILD_TORCH STREQUAL "STABLE")
  set(oldest_torch 2.11)
endif()
set(ROTARY_TORCH_VERSION "")
set(torch_cuda "")
if(ROTARY_PYTHON AND NOT Torch_DIR)
  rotary_query_torch(torch_found)
  if(NOT torch_found)  # pip hides the environment that it installs into behind these two variables
    rotary_query_torch(torch_found
      "${CMAKE_COMMAND}" -E env --unset=PYTHONPATH --unset=PYTHONNOUSERSITE)
  endif()
  if(torch_found)
    list(GET torch_found 0 torch_folder)
    list(GET torch_found 1 ROTARY_TORCH_VERSION)
    list(GET torch_found 2 torch_cuda)
    list(APPEND CMAKE_PREFIX_PATH "${torch_folder}/share/cmake")
  endif()
  if(NOT torch_found OR ROTARY_TORCH_VERSION VERSION_LESS ${oldest_torch})
    set(missing "rotary: no PyTorch ${oldest_torch} or newer found for ${ROTARY_PYTHON}")
    if(NOT ROTARY_BUILD_TORCH STREQUAL "AUTO")
      if(torch_found)
        set(torch_found_missing "it is ${ROTARY_TORCH_VERSION} in ${torch_folder}")
      endif()
      message(FATAL_ERROR "${missing}, which ROTARY_BUILD_TORCH needs: ${torch_found_missing}. Run "
        "scripts/venv.sh (the make targets do so), or `${ROTARY_PYTHON} -m pip install -r "
        "requirements-test.txt`, or name another Python with -DROTARY_PYTHON=.")
    endif()
    message(STATUS "${missing}: rotary.torch will have no operators")
    set(ROTARY_BUILD_TORCH OFF)
    return()
  endif()
endif()

if(ROTARY_BUILD_TORCH STREQUAL "STABLE")
  if(NOT torch_found)
    message(FATAL_ERROR "rotary: ROTARY_BUILD_TORCH=STABLE needs a Python with PyTorch, -DROTARY_PYTHON=")
  endif()
  set(TORCH_INSTALL_PREFIX "${torch_folder}")
  set(ROTARY_BUILD_TORCH OFF)
  set(ROTARY_BUILD_TORCH_STABLE ON)
  message(STATUS "rotary: PyTorch operators for every PyTorch from ${oldest_torch} on")
  return()
endif()

if(torch_cuda AND NOT ROTARY_HAS_CUDA)
  message(STATUS "rotary: PyTorch ${ROTARY_TORCH_VERSION} has CUDA, this build has not: its "
                 "operators will run on the CPU")
  rotary_host_torch("${torch_folder}")
else()
  # PyTorch for CUDA sets global flags for kernels, among them GPU architectures, which would be
  # added to those of each target.
  set(cuda_flags "${CMAKE_CUDA_FLAGS}")
  set(cuda_architectures "${CMAKE_CUDA_ARCHITECTURES}")
  find_package(Torch ${oldest_torch} REQUIRED)
  set(CMAKE_CUDA_FLAGS "${cuda_flags}")
  set(CMAKE_CUDA_ARCHITECTURES "${cuda_architectures}")
  if(NOT ROTARY_TORCH_VERSION)
    set(ROTARY_TORCH_VERSION "${Torch_VERSION}")
  endif()
endif()
set(ROTARY_BUILD_TORCH ON)
message(STATUS "rotary: PyTorch operators for PyTorch ${ROTARY_TORCH_VERSION}")

# rotary_torch_library(<target>): flags of a shared library that PyTorch loads. Beside it lies
# pytorch_version.txt: rotary.torch compares it with the PyTorch that it is imported into.
function(rotary_torch_library target)
  set(version_file "${CMAKE_CURRENT_BINARY_DIR}/pytorch_version.txt")
  file(CONFIGURE OUTPUT "${version_file}" CONTENT "${ROTARY_TORCH_VERSION}\n")
  if(UNIX AND NOT APPLE)
    # Hides statically linked symbols: a program may have another rotary or libstdc++.
    target_link_options(${target} PRIVATE "LINKER:--exclude-libs,ALL")
    if(NOT ROTARY_SANITIZE)  # the sanitizer run time is in the program
      target_link_options(${target} PRIVATE "LINKER:--no-undefined")
    endif()
  endif()
  if(SKBUILD)  # in a wheel: beside the Python files
    set_target_properties(${target} PROPERTIES BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN")
    install(TARGETS ${target} LIBRARY DESTINATION rotary/torch COMPONENT torch)
    install(FILES "${version_file}" DESTINATION rotary/torch COMPONENT torch)
  elseif(ROTARY_INSTALL)
    include(GNUInstallDirs)
    # RPATH of the LibTorch that it was built for; in Python that is already loaded. Explicit, because
    # CMake omits paths inside the source tree, where a virtual environment may be.
    get_filename_component(torch_libraries "${TORCH_LIBRARY}" DIRECTORY)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN;${torch_libraries}")
    install(TARGETS ${target} EXPORT rotary-torch-targets COMPONENT torch
            FILE_SET HEADERS COMPONENT torch)
  endif()
endfunction()
