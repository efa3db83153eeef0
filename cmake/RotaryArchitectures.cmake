# rotary_kernels_wait(<result> <architecture> ...)
#
# Whether kernels built for these architectures, as CMAKE_CUDA_ARCHITECTURES names them, wait for
# the launch before them on every GPU that launches can overlap on, which is 9.0 and later. A GPU
# takes machine code of its own major version, or else the newest PTX that is no newer than itself;
# PTX from before 9.0 cannot wait. So either there is none of that, or there is PTX of 9.0, which is
# newer and which every such GPU can take (that of 90a only 9.0 can).
#
# No where architectures are not named (OFF: they are in flags), because nothing is known then.
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
      return()  # native has no PTX; all and all-major have the newest that the compiler makes
    endif()
  endforeach()
  if(ARGN AND (of_9 OR NOT older))
    set(${result} ON PARENT_SCOPE)
  endif()
endfunction()
