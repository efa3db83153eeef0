# Whether the CUDA engine is built, and for which GPUs; sets ROTARY_HAS_CUDA.
#
# Not named otherwise, code is made for compute capability 9.0 and, as PTX that the driver
# translates when a program starts, for every GPU from 8.0 on. The preset `release` has machine code
# for 8.x, 9.0, 10.0 and 12.0, and PTX for the others. Who names architectures and wants
# Stream::overlap on later GPUs names 9.0 or later with its PTX (90, not 90-real): older PTX cannot
# wait.
set(ROTARY_HAS_CUDA OFF)
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
endif()
message(STATUS "rotary: CUDA engine ${ROTARY_HAS_CUDA}")
