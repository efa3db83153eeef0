# Whether the CUDA engine is built, and for which GPUs; sets ROTARY_HAS_CUDA, and what sources of
# kernels are told in ROTARY_CUDA_DEFINITIONS.
#
# Not named otherwise, code is made for compute capability 9.0 and, as PTX that the driver
# translates when a program starts, for every GPU from 8.0 on. The preset `release` has machine code
# for 8.x, 9.0, 10.0 and 12.0, and PTX for the others. Who names architectures, older PTX among
# them, and wants Stream::overlap names 9.0 with its PTX (90, not 90-real): older PTX cannot wait,
# and where a GPU might be given it Stream::overlap changes nothing.
include(RotaryArchitectures)

set(ROTARY_HAS_CUDA OFF)
set(ROTARY_CUDA_DEFINITIONS "")
if(ROTARY_CUDA STREQUAL "AUTO")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(ROTARY_HAS_CUDA ON)
  endif()
elseif(ROTARY_CUDA)
  set(ROTARY_HAS_CUDA ON)
endif()

if(ROTARY_HAS_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-virtual 90)
  endif()
  if(PROJECT_IS_TOP_LEVEL AND CCACHE_PROGRAM AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit 12.4 REQUIRED)
  rotary_kernels_wait(ROTARY_KERNELS_WAIT ${CMAKE_CUDA_ARCHITECTURES})
  if(NOT ROTARY_KERNELS_WAIT)
    set(ROTARY_CUDA_DEFINITIONS ROTARY_HAS_OLD_PTX)
    message(STATUS "rotary: launches do not overlap, with these CMAKE_CUDA_ARCHITECTURES")
  endif()
endif()
message(STATUS "rotary: CUDA engine ${ROTARY_HAS_CUDA}")
