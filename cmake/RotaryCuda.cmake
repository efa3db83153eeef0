# Decides whether the CUDA engine is built, and for which GPUs; sets ROTARY_HAS_CUDA and
# ROTARY_CUDA_DEFINITIONS, the compile definitions of kernel sources.
#
# By default there is machine code for compute capability 9.0, and PTX, which the driver compiles at
# program start, for every GPU from 8.0 on. The preset `release` has machine code for 8.x, 9.0, 10.0
# and 12.0, and PTX for the others. With other architectures, Stream::overlap has an effect only if
# no PTX is older than 9.0, or PTX for 9.0 is included (90, not 90-real): older PTX cannot wait for the
# previous launch.
include(RotaryArchitectures)

set(ROTARY_HAS_CUDA OFF)
set(ROTARY_CUDA_DEFINITIONS "")
set(native_architectures "")
if(ROTARY_CUDA STREQUAL "NATIVE")
  rotary_native_architectures(native_architectures)
endif()
if(ROTARY_CUDA STREQUAL "AUTO" OR native_architectures)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(ROTARY_HAS_CUDA ON)
  endif()
elseif(ROTARY_CUDA STREQUAL "NATIVE")
  message(STATUS "rotary: no GPU found; ROTARY_CUDA=ON builds the CUDA engine nevertheless")
elseif(ROTARY_CUDA)
  set(ROTARY_HAS_CUDA ON)
endif()

if(ROTARY_HAS_CUDA)
  if(native_architectures AND NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES ${native_architectures})
  elseif(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
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
    message(STATUS "rotary: Stream::overlap has no effect with these CMAKE_CUDA_ARCHITECTURES")
  endif()
endif()
message(STATUS "rotary: CUDA engine ${ROTARY_HAS_CUDA}")
