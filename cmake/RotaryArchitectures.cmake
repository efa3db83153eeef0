# rotary_kernels_wait(<result> <architecture> ...)
#
# Whether kernels built for these architectures, in the form of CMAKE_CUDA_ARCHITECTURES, wait for the
# previous launch on every GPU with programmatic dependent launch, which is 9.0 and later. A GPU runs
# machine code of its own major version, or else the newest PTX that is not newer than itself; PTX
# from before 9.0 cannot wait. The result is true if there is no such PTX, or if there is PTX for 9.0,
# which is newer and runs on every such GPU (PTX for 90a runs on 9.0 only).
#
# False if architectures are unknown (OFF: they are set by flags).
function(rotary_kernels_wait result)
  set(${result} OFF PARENT_SCOPE)
  set(older OFF)
  set(of_9 OFF)
  foreach(architecture IN LISTS ARGN)
    if(architecture MATCHES "^([0-9]+)[af]?(-virtual)?$")
      if(CMAKE_MATCH_1 LESS 90)
        set(older ON)
      elseif(architecture MATCHES "^90(-virtual)?$")
        set(of_9 ON)
      endif()
    elseif(NOT architecture MATCHES "^([0-9]+[af]?-real|native|all|all-major)$")
      return()  # native has no PTX; all and all-major have the newest that the compiler supports
    endif()
  endforeach()
  if(ARGN AND (of_9 OR NOT older))
    set(${result} ON PARENT_SCOPE)
  endif()
endfunction()

# rotary_native_architectures(<result>): machine code for the GPUs of this machine from 8.0 on, in
# the form of CMAKE_CUDA_ARCHITECTURES; empty if there is none. The driver is asked, so that a machine
# without a GPU needs no CUDA compiler to find out.
function(rotary_native_architectures result)
  set(${result} "" PARENT_SCOPE)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE capabilities RESULT_VARIABLE failed ERROR_QUIET)
  if(failed)
    return()
  endif()
  string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${capabilities}")
  list(FILTER capabilities EXCLUDE REGEX "^[0-7]\\.")
  list(REMOVE_DUPLICATES capabilities)
  list(TRANSFORM capabilities REPLACE "\\." "")
  list(TRANSFORM capabilities APPEND "-real")
  set(${result} "${capabilities}" PARENT_SCOPE)
endfunction()
